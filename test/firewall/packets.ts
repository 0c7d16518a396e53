/**
 * Packets by a seed: points inside rules, half of them moved a little, so that they lie on both sides of the borders. No two
 * of one list are of the same connection in either direction, because conntrack would know the second one.
 */

import type { FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { FilterPacket } from '../../dataplane/bpf/firewall/filter.ts'
import type { Prefix } from '../../dataplane/nft/text.ts'
import { type Family, maskOf, prefixOf, routable, textOf, type Words, width, wordsOf } from './address.ts'
import { type Dice, dice } from './dice.ts'
import { DEVICES, drawMac } from './rulesets.ts'

export const PROTOCOLS = { icmp: 1, tcp: 6, udp: 17, icmp6: 58 } as const
/** ESP, OSPF, PIM, VRRP: conntrack knows their addresses only. */
const OTHERS = [50, 89, 103, 112] as const

/** The first packet of a connection. */
export interface Packet {
  family: Family
  source: Words
  dest: Words
  /** IP protocol number. */
  protocol: number
  /** 0 for a protocol without ports. */
  sourcePort: number
  destPort: number
  /** By which conntrack tells one ping from another; 0 for what is none. */
  ident: number
  /** One of DEVICES. */
  interface: string
  mac: string
  /** Type of service or traffic class, for a test's own use; default 0. */
  tos?: number
}

/** Tries for each packet, after which the rules are said to leave no room for more. */
const TRIES = 200

/** `count` of them. Throws RangeError when the rules are so narrow that there are not so many connections. */
export function packets(rules: readonly FilterRule[], count: number, seed: number): Packet[] {
  const draw = dice(seed)
  const known = new Set<string>()
  const found: Packet[] = []
  for (let tries = count * TRIES; found.length < count; tries--) {
    if (tries === 0) throw new RangeError(`no more than ${found.length} connections of ${count} could be found`)
    const point = inside(draw, draw.pick(rules), rules)
    const packet = draw.maybe(0.5) ? point : moved(draw, point)
    if (!routable(packet.source) || !routable(packet.dest) || isKnown(known, packet)) continue
    found.push(packet)
  }
  return found
}

/** True when its connection is known; it is from then on. */
function isKnown(known: Set<string>, { source, dest, protocol, sourcePort, destPort, ident }: Packet): boolean {
  const [from, to] = [`${source} ${sourcePort}`, `${dest} ${destPort}`]
  const key = `${protocol} ${ident} ${from < to ? `${from} ${to}` : `${to} ${from}`}`
  if (known.has(key)) return true
  known.add(key)
  return false
}

/** A packet that this rule matches if any can; what it leaves open is often what another rule asks for. */
export function inside(draw: Dice, { match }: FilterRule, rules: readonly FilterRule[]): Packet {
  const family = match.source?.family ?? match.dest?.family ?? (draw.maybe(0.85) || match.protocol === 'icmp' ? 4 : 6)
  const side = (own: Prefix | undefined, which: 'source' | 'dest') => {
    if (own) return pointOf(draw, own)
    const other = draw.maybe(0.5) ? draw.pick(rules).match[which] : undefined
    return pointOf(draw, other?.family === family ? other : prefixOf(family === 4 ? OPEN[4][which] : OPEN[6][which], 6))
  }
  const ports = match.destPorts !== undefined || match.sourcePort !== undefined
  const protocol = match.protocol
    ? PROTOCOLS[match.protocol]
    : ports
      ? draw.pick([PROTOCOLS.tcp, PROTOCOLS.udp])
      : anyProtocol(draw, family)
  const [low, high] = match.destPorts ?? (draw.maybe(0.5) ? [1, 65_535] : [1, 1024])
  const device = DEVICES.find((name) => name === match.interface) ?? draw.pick(DEVICES)
  return withPorts({
    family,
    source: side(match.source, 'source'),
    dest: side(match.dest, 'dest'),
    protocol,
    sourcePort: match.sourcePort ?? draw.between(1, 65_535),
    destPort: draw.between(low, high),
    ident: draw.between(1, 65_535),
    interface: device,
    mac: match.mac ?? drawMac(draw),
  })
}

/** Where packets go that no rule gives an address. */
const OPEN = {
  4: { source: [20 << 24], dest: [60 << 24] },
  6: { source: [0x2600_0000, 0, 0, 0], dest: [0x2610_0000, 0, 0, 0] },
} as const

const anyProtocol = (draw: Dice, family: Family): number =>
  draw.weighed([
    [PROTOCOLS.tcp, 4],
    [PROTOCOLS.udp, 4],
    [family === 4 ? PROTOCOLS.icmp : PROTOCOLS.icmp6, 1],
    [draw.pick(OTHERS), 1],
  ])

/** A random address inside a prefix. */
export const pointOf = (draw: Dice, prefix: Prefix): Words =>
  wordsOf(prefix).map((word, n) => (word | (draw.between(0, 0xffff_ffff) & ~maskOf(prefix.length, n))) >>> 0)

/** Changed in one thing. */
export function moved(draw: Dice, packet: Packet): Packet {
  const flipped = (words: Words) => {
    const bit = draw.between(0, width(packet.family) - 1)
    return words.map((word, n) => (n === bit >> 5 ? (word ^ (1 << (31 - (bit & 31)))) >>> 0 : word))
  }
  const { source, dest, sourcePort, destPort } = packet
  const beside = (port: number) => Math.min(65_535, Math.max(1, port + draw.pick([-1, 1])))
  const change = draw.pick<() => Partial<Packet>>([
    () => ({ source: flipped(source) }),
    () => ({ dest: flipped(dest) }),
    () => ({ destPort: beside(destPort) }),
    () => ({ destPort: draw.between(1, 65_535) }),
    () => ({ sourcePort: draw.maybe(0.5) ? beside(sourcePort) : draw.between(1, 65_535) }),
    () => ({ protocol: anyProtocol(draw, packet.family) }),
    () => ({ interface: draw.pick(DEVICES) }),
    () => ({ mac: drawMac(draw) }),
  ])()
  const from = { sourcePort: sourcePort || draw.between(1, 65_535), destPort: destPort || draw.between(1, 65_535) }
  return withPorts({ ...packet, ...from, ident: packet.ident || draw.between(1, 65_535), ...change })
}

/** Leaves only what the protocol has. */
function withPorts(packet: Packet): Packet {
  const { tcp, udp, icmp, icmp6 } = PROTOCOLS
  if (packet.protocol === tcp || packet.protocol === udp) return { ...packet, ident: 0 }
  const ident = packet.protocol === icmp || packet.protocol === icmp6 ? packet.ident : 0
  return { ...packet, sourcePort: 0, destPort: 0, ident }
}

/** As the classifier is asked about it. */
export const asked = ({ source, dest, ...packet }: Packet): FilterPacket => ({
  source: textOf(source),
  dest: textOf(dest),
  protocol: packet.protocol,
  sourcePort: packet.sourcePort,
  destPort: packet.destPort,
  interface: packet.interface,
  mac: packet.mac,
})

/** For messages. */
export const described = (packet: Packet): string => JSON.stringify(asked(packet))
