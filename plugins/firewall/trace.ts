/** `rules trace`: what becomes of a packet that opens a connection, by the rules as they are now. */
import { type Static, Type } from 'typebox'
import type { AreaContext, Db } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { badRequest } from '../../core/errors.ts'
import { InterfaceName, Printable } from '../../core/schemas.ts'
import { inSlices } from '../../core/slices.ts'
import type { FilterPacket } from '../../dataplane/bpf/firewall/filter.ts'
import { contains, type Prefix, parseMac, parsePrefix } from '../../dataplane/nft/text.ts'
import { openings, WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { apiPorts } from './chains.ts'
import { shortfall } from './legacy.ts'
import { flowOf, PROTOCOLS, predicate } from './match.ts'
import { defaultAction, everyRule, queries } from './queries.ts'
import { compareRanks, type Rank, rankOf } from './refs.ts'
import { openingOf } from './skeleton.ts'
import type { Row } from './tables.ts'

/** A query string, so every value is text: the rules of a packet can then say what is wrong with it. */
const Word = Type.Optional(Printable(64))
export const TraceQuery = Type.Object(
  {
    src: Printable(64),
    dst: Printable(64),
    proto: Word,
    sport: Word,
    dport: Word,
    iif: Type.Optional(InterfaceName),
    mac: Word,
  },
  { additionalProperties: false },
)

export interface Packet extends FilterPacket {
  family: 4 | 6
}

export interface Verdict {
  judge: 'classifier' | 'nft'
  decided_by: 'rule' | 'default'
  action: 'accept' | 'drop'
  /** Of the rule. */
  id?: number
  rank?: Rank
  /** For what a default deny drops: whether a failsafe spares it (D71). What is spared for sure is accepted. */
  spared?: string
  /** Tables of the classifier that were looked into. */
  probes?: number
}

const [SPARED, NOT_SPARED] = ['yes', 'no']
const ICMPV6 = 58
const [DHCP, DHCP_CLIENT, DHCPV6, DHCPV6_CLIENT] = [67, 68, 547, 546]

/** Throws a 400 that names the parameter. A packet without a protocol is one of TCP. */
export function readPacket(query: Static<typeof TraceQuery>): Packet {
  const [source, dest] = [readAddress(query.src, 'src'), readAddress(query.dst, 'dst')]
  if (source.family !== dest.family) throw badRequest('src, dst: must be of the same address family')
  const protocol = readProtocol(query.proto ?? 'tcp')
  if (protocol === PROTOCOLS.icmp && source.family === 6) throw badRequest('proto: icmp is IPv4 only; ICMPv6 is 58')
  const [sourcePort, destPort] = [readPort(query.sport, 'sport'), readPort(query.dport, 'dport')]
  if (protocol !== PROTOCOLS.tcp && protocol !== PROTOCOLS.udp && sourcePort + destPort > 0) {
    throw badRequest('sport, dport: only tcp and udp have ports')
  }
  const mac = query.mac === undefined ? '' : parseMac(query.mac)
  if (mac === undefined) throw badRequest('mac: not a MAC address')
  const { family } = source
  const ends = { source: source.text, dest: dest.text, sourcePort, destPort }
  return { family, protocol, ...ends, interface: query.iif ?? '', mac }
}

function readAddress(text: string, field: string): Prefix {
  const address = text.includes('/') ? undefined : parsePrefix(text)
  if (address === undefined) throw badRequest(`${field}: not an IP address`)
  return address
}

function readProtocol(text: string): number {
  const number = /^(0|[1-9][0-9]{0,2})$/.test(text) ? Number(text) : undefined
  const protocol = Object.hasOwn(PROTOCOLS, text) ? PROTOCOLS[text] : number
  if (protocol === undefined || protocol > 255)
    throw badRequest('proto: must be tcp, udp, icmp or a number from 0 to 255')
  return protocol
}

function readPort(text: string | undefined, field: string): number {
  if (text === undefined) return 0
  if (!/^(0|[1-9][0-9]{0,4})$/.test(text) || Number(text) > 65_535) {
    throw badRequest(`${field}: must be a whole number from 0 to 65535`)
  }
  return Number(text)
}

/** Asks whoever judges on this node: the tables of the classifier in the kernel, else every rule, in slices. */
export async function trace(
  context: Pick<AreaContext, 'plane' | 'read' | 'config' | 'now'>,
  packet: Packet,
): Promise<Verdict> {
  const { plane, read, now } = context
  const judge = plane.filter.accelerated ? 'classifier' : 'nft'
  const { id, accept, ...probes } = plane.filter.accelerated
    ? await plane.filter.trace(packet)
    : await compareAll(read, packet, now())
  if (id === undefined) {
    const spared = accept ? undefined : await sparing(packet, context)
    const action = accept || spared === SPARED ? 'accept' : 'drop'
    return { judge, decided_by: 'default', action, ...(spared && { spared }), ...probes }
  }
  const action = accept ? 'accept' : 'drop'
  const row = queries(read).byId.get({ id })
  return { judge, decided_by: 'rule', action, id, ...(row && { rank: rankOf(row) }), ...probes }
}

async function compareAll(read: Db, packet: Packet, at: Date): Promise<{ id?: number; accept: boolean }> {
  const { family, protocol, source: src, dest: dst, sourcePort: sport, destPort: dport } = packet
  const { interface: device, mac } = packet
  const flow = { ...flowOf({ family, protocol, src, dst, sport, dport }), interface: device, mac }
  let first: Row | undefined
  await inSlices(everyRule(read), (row) => {
    if (first && compareRanks(rankOf(row), rankOf(first)) > 0) return
    if (!shortfall(row)?.leftOut && predicate(row, at)(flow)) first = row
  })
  return first ? { id: first.id, accept: first.action === 'accept' } : { accept: defaultAction(read) === 'allow' }
}

/** Which failsafe (chains.ts) spares a packet that the default deny would drop, as far as the packet tells. */
async function sparing(packet: Packet, { plane, config }: Pick<AreaContext, 'plane' | 'config'>): Promise<string> {
  if (!config.flag('firewall_failsafe')) return `${NOT_SPARED}, firewall_failsafe is off`
  const { family, protocol, source, dest, sourcePort, destPort } = packet
  const between = (from: number, to: number) => protocol === PROTOCOLS.udp && sourcePort === from && destPort === to
  if (packet.interface === 'lo') return SPARED
  if (protocol === ICMPV6 && family === 6) return 'if it is neighbour discovery'
  const use = await plane.devices.useOf(dest)
  if (between(DHCP, DHCP_CLIENT) || between(DHCPV6, DHCPV6_CLIENT)) return use === undefined ? NOT_SPARED : SPARED
  if (packet.interface === WORK_BRIDGE && between(DHCP_CLIENT, DHCP)) {
    return use === undefined ? 'when addressed to a gateway address of this node or to all' : SPARED
  }
  if (use !== 'local') return NOT_SPARED
  if (protocol === PROTOCOLS.tcp && apiPorts(config).includes(destPort) && mayCall(packet, config)) return SPARED
  const name = ['tcp', 'udp'].find((it) => PROTOCOLS[it] === protocol)
  const open = name !== undefined && (await plane.holds(openings(family), openingOf(name, destPort, source)))
  return open ? SPARED : NOT_SPARED
}

function mayCall({ source }: Packet, config: Config): boolean {
  const allowed = config.list('api_allowed_ips')
  const address = parsePrefix(source)
  if (allowed.length === 0 || address === undefined) return true
  return allowed.some((text) => {
    const prefix = parsePrefix(text)
    return prefix !== undefined && contains(prefix, address)
  })
}
