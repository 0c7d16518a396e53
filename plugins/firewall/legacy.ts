/**
 * Rows that an earlier release stored and this one would refuse. They stay, and the API says openly what of them is not
 * enforced; a rule that cannot be enforced without hitting other traffic is left out. PUT is the way to correct them.
 */
import { parseMac, parsePrefix } from '../../dataplane/nft/text.ts'
import { LEVELS } from './schemas.ts'
import type { Row } from './tables.ts'

export interface Shortfall {
  notEnforced: { field: string; detail: string }[]
  /** The node leaves the rule out entirely. */
  leftOut: boolean
}

const LEFT_OUT = 'the rule is left out'

/** What of a row is not enforced; undefined when all of it is. */
export function shortfall(row: Row): Shortfall | undefined {
  const out = unusable(row)
  const softened = row.action === 'reject' || !row.stateful
  if (out.length === 0 && !softened) return undefined
  const notEnforced = out.map(([field, why]) => ({ field, detail: `${why}: ${LEFT_OUT}` }))
  if (row.action === 'reject') {
    notEnforced.push({ field: 'action', detail: 'enforced as drop: the sender gets no answer' })
  }
  if (!row.stateful) notEnforced.push({ field: 'stateful', detail: 'enforced statefully: replies are admitted' })
  return { notEnforced, leftOut: out.length > 0 }
}

/** Fields for which the rule cannot be enforced as it stands, each with the reason. */
function unusable(row: Row): [string, string][] {
  const [source, dest] = [prefixOf(row.sourceIp), prefixOf(row.destIp)]
  const quoted = (text: string) => JSON.stringify(text.slice(0, 64))
  const found: [boolean, string, string | (() => string)][] = [
    [row.chain !== 'prerouting', 'chain', () => `rules apply in prerouting only, this is one of ${quoted(row.chain)}`],
    [!['accept', 'drop', 'reject'].includes(row.action), 'action', () => `unknown action ${quoted(row.action)}`],
    [!['', 'tcp', 'udp', 'icmp'].includes(row.protocol), 'protocol', () => `unknown protocol ${quoted(row.protocol)}`],
    [source === null, 'source_ip', () => `not an address or CIDR: ${quoted(row.sourceIp)}`],
    [dest === null, 'dest_ip', () => `not an address or CIDR: ${quoted(row.destIp)}`],
    [!!source && !!dest && source.family !== dest.family, 'dest_ip', 'of another address family than source_ip'],
    [row.mac !== '' && parseMac(row.mac) === undefined, 'mac', () => `not a MAC address: ${quoted(row.mac)}`],
    [!/^[A-Za-z0-9_.-]{0,15}$/.test(row.interface), 'interface', () => `not a device name: ${quoted(row.interface)}`],
    [!isPort(row.sourcePort), 'source_port', 'not a port'],
    [!isPort(row.destPort), 'dest_port', 'not a port'],
    [!isPort(row.destPortMax), 'dest_port_max', 'not a port'],
    [row.destPortMax > 0 && row.destPort === 0, 'dest_port_max', 'a range without a start'],
    [row.destPortMax > 0 && row.destPortMax < row.destPort, 'dest_port_max', 'below dest_port'],
    [!(LEVELS as readonly string[]).includes(row.level), 'level', () => `unknown level ${quoted(row.level)}`],
    [!Number.isInteger(row.priority) || row.priority < 0 || row.priority > 1_000_000, 'priority', 'out of range'],
  ]
  if (row.protocol === 'icmp') {
    found.push(
      [source?.family === 6 || dest?.family === 6, 'protocol', 'icmp is IPv4 only'],
      [row.sourcePort > 0, 'source_port', 'icmp has no ports'],
      [row.destPort > 0, 'dest_port', 'icmp has no ports'],
    )
  }
  return found.flatMap(([is, field, why]) =>
    is ? [[field, typeof why === 'string' ? why : why()] as [string, string]] : [],
  )
}

const isPort = (port: number): boolean => Number.isInteger(port) && port >= 0 && port <= 65535

/** Undefined when absent, null when unreadable. */
const prefixOf = (text: string) => (text === '' ? undefined : (parsePrefix(text) ?? null))
