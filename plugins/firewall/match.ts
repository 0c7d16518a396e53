/** What a rule matches, parsed; and whether it matches a connection. The reference for every enforcement path. */
import type { Connection } from '../../dataplane/connections.ts'
import { contains, type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import { scheduleHolds } from './schedule.ts'
import type { Row } from './tables.ts'

export const PROTOCOLS: Readonly<Record<string, number>> = { icmp: 1, tcp: 6, udp: 17 }

export type Predicate = (connection: Connection) => boolean

/** The predicate of a row; `at` decides whether a scheduled rule is in force. */
export function predicate(row: Row, at: Date): Predicate {
  const [source, dest] = [parsed(row.sourceIp), parsed(row.destIp)]
  const protocol = PROTOCOLS[row.protocol]
  const ported = row.sourcePort > 0 || row.destPort > 0
  const top = row.destPortMax || row.destPort
  const inForce = scheduleHolds(row, at)
  return (connection) =>
    inForce &&
    (row.protocol === '' ||
      (connection.protocol === protocol && (row.protocol !== 'icmp' || connection.family === 4))) &&
    (!ported || connection.protocol === 6 || connection.protocol === 17) &&
    (row.sourcePort === 0 || connection.sport === row.sourcePort) &&
    (row.destPort === 0 || (connection.dport >= row.destPort && connection.dport <= top)) &&
    holds(source, connection.src) &&
    holds(dest, connection.dst) &&
    (row.interface === '' || connection.interface === row.interface) &&
    (row.mac === '' || connection.mac === row.mac)
}

const parsed = (text: string): Prefix | undefined => (text === '' ? undefined : parsePrefix(text))

function holds(prefix: Prefix | undefined, address: string): boolean {
  if (prefix === undefined) return true
  const parsed = parsePrefix(address)
  return parsed !== undefined && contains(prefix, parsed)
}
