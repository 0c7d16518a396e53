/** What a rule matches, parsed; and whether it matches a connection. The reference for every enforcement path. */
import type { Connection, Ingress } from '../../dataplane/connections.ts'
import { contains, type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import { scheduleHolds } from './schedule.ts'
import type { Row } from './tables.ts'

/** A connection's first packet: addresses before translation, device and MAC as far as they are known. */
export interface Flow extends Ingress {
  family: 4 | 6
  /** IP protocol number. */
  protocol: number
  src: Prefix
  dst: Prefix
  /** 0 for a protocol without ports. */
  sport: number
  dport: number
}

export type Predicate = (flow: Flow) => boolean

/** IP protocol numbers of those that rules name. */
export const PROTOCOLS: Readonly<Record<string, number>> = { icmp: 1, tcp: 6, udp: 17 }

export function flowOf({ family, protocol, src, dst, sport, dport }: Omit<Connection, 'reply' | 'established'>): Flow {
  return { family, protocol, src: address(src), dst: address(dst), sport, dport }
}

/**
 * The predicate of a row; `at` decides whether a scheduled rule is in force, `unknown` what to say when the row asks for
 * a device or MAC and the flow's is not known.
 */
export function predicate(row: Row, at: Date, unknown = false): Predicate {
  const source = row.sourceIp === '' ? undefined : address(row.sourceIp)
  const dest = row.destIp === '' ? undefined : address(row.destIp)
  const protocol = PROTOCOLS[row.protocol]
  const ported = row.sourcePort > 0 || row.destPort > 0
  const top = Math.max(row.destPortMax, row.destPort)
  const inForce = scheduleHolds(row, at)
  return (flow) =>
    inForce &&
    (row.protocol === '' || (flow.protocol === protocol && (row.protocol !== 'icmp' || flow.family === 4))) &&
    (!ported || flow.protocol === PROTOCOLS.tcp || flow.protocol === PROTOCOLS.udp) &&
    (row.sourcePort === 0 || flow.sport === row.sourcePort) &&
    (row.destPort === 0 || (flow.dport >= row.destPort && flow.dport <= top)) &&
    (source === undefined || contains(source, flow.src)) &&
    (dest === undefined || contains(dest, flow.dst)) &&
    ingressHolds(row.interface, flow.interface, unknown) &&
    ingressHolds(row.mac, flow.mac, unknown)
}

const ingressHolds = (wanted: string, found: string | undefined, unknown: boolean): boolean =>
  wanted === '' || (found === undefined ? unknown : found === wanted)

function address(text: string): Prefix {
  const prefix = parsePrefix(text)
  if (prefix === undefined) throw new TypeError(`not an address: ${JSON.stringify(text)}`)
  return prefix
}
