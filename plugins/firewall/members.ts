/** Rules that would cut this node off from its cluster are refused (D73). Pure. */
import type { Member } from '../../core/area.ts'
import { conflict } from '../../core/errors.ts'
import { contains, parsePrefix } from '../../dataplane/nft/text.ts'
import type { Row } from './tables.ts'

type Fields = Pick<Row, 'action' | 'protocol' | 'sourceIp' | 'destIp' | 'destPort' | 'destPortMax'>

/**
 * A drop by source may not concern what a member sends to the cluster's ports of this node. Device, MAC address and source
 * port do not count: who calls chooses them, or the way there does. Throws a 409 that names the member.
 */
export function requireSparesMembers(rule: Fields, members: Iterable<Member>): void {
  if (rule.action === 'accept' || rule.sourceIp === '') return
  for (const member of members) {
    if (isHit(rule, member)) {
      throw conflict('BLOCKS_MEMBER', `rule would block cluster member ${member.id} (${member.address})`)
    }
  }
}

function isHit(rule: Fields, { address, calls }: Member): boolean {
  const last = Math.max(rule.destPort, rule.destPortMax)
  return (
    covers(rule.sourceIp, address) &&
    (rule.destIp === '' || covers(rule.destIp, calls.address)) &&
    (rule.protocol === '' || rule.protocol === 'tcp') &&
    (rule.destPort === 0 || calls.ports.some((port) => port >= rule.destPort && port <= last))
  )
}

function covers(range: string, address: string): boolean {
  const [prefix, one] = [parsePrefix(range), parsePrefix(address)]
  return prefix !== undefined && one !== undefined && contains(prefix, one)
}
