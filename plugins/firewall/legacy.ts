/**
 * Rows that an earlier release stored and this one would refuse. They stay, and the API says openly what of them is not
 * enforced; a rule that cannot be enforced without hitting other traffic is left out. PUT is the way to correct them.
 */
import type { Row } from './tables.ts'

export interface Shortfall {
  notEnforced: { field: string; detail: string }[]
  /** The node leaves the rule out entirely. */
  left_out: boolean
}

export function shortfall(row: Row): Shortfall | undefined {
  const notEnforced: Shortfall['notEnforced'] = []
  let left_out = false
  const leave = (field: string, detail: string) => {
    notEnforced.push({ field, detail })
    left_out = true
  }
  if (row.chain !== 'prerouting') {
    leave('chain', `rules apply in prerouting only; as a rule of ${JSON.stringify(row.chain)} this one is left out`)
  }
  if (row.action === 'reject') {
    notEnforced.push({ field: 'action', detail: 'enforced as drop: the sender gets no answer' })
  } else if (row.action !== 'accept' && row.action !== 'drop') {
    leave('action', `unknown action ${JSON.stringify(row.action)}: the rule is left out`)
  }
  if (!row.stateful) notEnforced.push({ field: 'stateful', detail: 'enforced statefully: replies are admitted' })
  if (row.protocol === 'icmp' && (row.sourcePort > 0 || row.destPort > 0)) {
    leave('dest_port', 'icmp has no ports: the rule is left out')
  }
  return notEnforced.length === 0 ? undefined : { notEnforced, left_out }
}
