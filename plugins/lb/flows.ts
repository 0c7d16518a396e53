/** Where nft balances, conntrack's list of connections is the only one: which of them a backend serves. Pure. */
import type { Connection } from '../../dataplane/connections.ts'
import type { BackendRow, VipRow } from './tables.ts'

/** IANA protocol numbers */
export const PROTOCOLS = { tcp: 6, udp: 17 } as const

export type Front = Pick<VipRow, 'address' | 'port' | 'protocol'>
export type Target = Pick<BackendRow, 'ip' | 'port'>

/** Tells whether a connection goes to a VIP for that very port. One for every port has only what these leave. */
export type Claimed = (connection: Connection) => boolean

/** How many connections a backend of a VIP serves. */
export type Served = (front: Front, target: Target) => number

/** Counts what `all` holds; the second table, for VIPs without a port, is only made where somebody asks for it. */
export function tally(all: readonly Connection[], claimed: Claimed): Served {
  const standing = all.filter(({ established, reply, dst }) => established && reply.src !== dst)
  const counted = (key: (it: Connection) => string, of: readonly Connection[]) => {
    const counts = new Map<string, number>()
    for (const it of of) counts.set(key(it), (counts.get(key(it)) ?? 0) + 1)
    return counts
  }
  const exact = counted((it) => [it.dst, it.protocol, it.dport, it.reply.src, it.reply.sport].join(' '), standing)
  let every: Map<string, number> | undefined
  return ({ address, port, protocol }, { ip, port: backendPort }) => {
    if (port !== 0) return exact.get([address, PROTOCOLS[protocol], port, ip, backendPort].join(' ')) ?? 0
    every ??= counted(
      (it) => [it.dst, it.protocol, it.reply.src].join(' '),
      standing.filter((it) => it.reply.sport === it.dport && !claimed(it)),
    )
    return every.get([address, PROTOCOLS[protocol], ip].join(' ')) ?? 0
  }
}

/** Whether nft has turned a connection from a VIP to a backend. Addresses are canonical on both sides. */
export function isServed(
  { address, port, protocol }: Front,
  target: Target,
  claimed: Claimed,
  it: Connection,
): boolean {
  if (it.dst !== address || it.protocol !== PROTOCOLS[protocol] || it.reply.src !== target.ip) return false
  if (it.reply.sport !== (target.port || it.dport)) return false
  return port === 0 ? !claimed(it) : it.dport === port
}

export const protocolOf = ({ protocol }: Connection): 'tcp' | 'udp' | undefined =>
  protocol === PROTOCOLS.tcp ? 'tcp' : protocol === PROTOCOLS.udp ? 'udp' : undefined
