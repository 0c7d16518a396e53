/** Where nft balances, conntrack's list of connections is the only one: which of them a backend serves. Pure. */
import type { Connection } from '../../dataplane/connections.ts'
import { inSlices } from '../../dataplane/slices.ts'
import type { BackendRow, VipRow } from './tables.ts'

/** IANA protocol numbers */
export const PROTOCOLS = { tcp: 6, udp: 17 } as const

export type Front = Pick<VipRow, 'address' | 'port' | 'protocol'>
export type Target = Pick<BackendRow, 'ip' | 'port'>

/** Tells whether a connection goes to a VIP for that very port. One for every port has only what these leave. */
export type Claimed = (connection: Connection) => boolean

/** How many connections a backend of a VIP serves. */
export type Served = (front: Front, target: Target) => number

/** Counts what `all` holds. */
export async function tally(all: readonly Connection[], claimed: Claimed): Promise<Served> {
  const [exact, every] = [new Map<string, number>(), new Map<string, number>()]
  const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1)
  await inSlices(all, (it) => {
    const { established, dst, protocol, dport, reply } = it
    if (!established || reply.src === dst) return
    count(exact, `${dst} ${protocol} ${dport} ${reply.src} ${reply.sport}`)
    if (reply.sport === dport && !claimed(it)) count(every, `${dst} ${protocol} ${reply.src}`)
  })
  return ({ address, port, protocol }, { ip, port: backendPort }) =>
    (port !== 0
      ? exact.get(`${address} ${PROTOCOLS[protocol]} ${port} ${ip} ${backendPort}`)
      : every.get(`${address} ${PROTOCOLS[protocol]} ${ip}`)) ?? 0
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
