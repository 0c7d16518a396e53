/** Lists of rules that are hard for a classifier by tuples: what separates the rules is where it does not look first. */
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Prefix } from '../../dataplane/nft/text.ts'
import { prefixOf, width } from './address.ts'
import { type Dice, dice } from './dice.ts'
import { DEVICES, drawMac, NO_DEVICE, rule } from './rulesets.ts'

export interface Adversary {
  name: string
  /** `count` is about how many rules; those whose number is given by what they vary make as many as there are. */
  make(count: number, seed: number): FilterRule[]
}

/** A list where rule `n` has the match that `draw` gives, and level and verdict at random. */
const each =
  (match: (draw: Dice, n: number) => FilterMatch) =>
  (count: number, seed: number): FilterRule[] => {
    const draw = dice(seed)
    return Array.from({ length: count }, (_, n) => {
      const drawn = match(draw, n)
      return rule(n + 1, [draw.between(0, 1), order(draw, drawn)], draw.maybe(0.5), drawn)
    })
  }

/** A priority by which broad rules mostly come behind narrow ones: else a few of them would decide everything. */
function order(draw: Dice, { source, dest, destPorts, sourcePort, protocol }: FilterMatch): number {
  const open = (prefix: Prefix | undefined) => (prefix ? width(prefix.family) - prefix.length : 128)
  const ports = destPorts ? Math.log2(destPorts[1] - destPorts[0] + 1) : 16
  const breadth = open(source) + open(dest) + ports + (sourcePort === undefined ? 16 : 0) + (protocol ? 0 : 1)
  return Math.floor(4 * breadth) + draw.between(0, 20)
}

const SOURCE = [(20 << 24) | 0x5a5a5a] as const
const DEST = [(60 << 24) | 0x33cc33] as const
const SOURCE6 = [0x2600_5a5a, 0x1234_5678, 0x9abc_def0, 0x0f1e_2d3c] as const
const DEST6 = [0x2610_a5a5, 0x8765_4321, 0x0fed_cba9, 0xc3d2_e1f0] as const

/** Any to any, told apart by ranges of ports alone, which overlap. */
const ranges = each((draw) => {
  const low = draw.between(1, 65_535)
  const high = Math.min(
    65_535,
    low +
      draw.weighed([
        [0, 2],
        [draw.between(1, 30), 3],
        [draw.between(1, 20_000), 3],
      ]),
  )
  return { ...draw.pick([{}, { protocol: 'tcp' } as const, { protocol: 'udp' } as const]), destPorts: [low, high] }
})

/** Prefixes of all lengths around one pair of addresses, at one level: only id and priority order them. */
function nested(count: number, seed: number): FilterRule[] {
  const draw = dice(seed)
  return Array.from({ length: count }, (_, n) => {
    const match: FilterMatch = {
      source: prefixOf(SOURCE, draw.between(0, 32)),
      ...(draw.maybe(0.7) && { dest: prefixOf(DEST, draw.between(0, 32)) }),
      ...(draw.maybe(0.5) && { protocol: 'udp', destPorts: [draw.between(1, 40), draw.between(41, 60)] }),
    }
    return rule(n + 1, [2, order(draw, match)], draw.maybe(0.5), match)
  })
}

/** Every pair of lengths once, the longer ones elsewhere: no pair holds what another does. */
function lengthPairs(_count: number, seed: number): FilterRule[] {
  const draw = dice(seed)
  return Array.from({ length: 33 * 33 }, (_, n) => {
    const flip = draw.between(0, 0xffff)
    const [source, dest] = [[(SOURCE[0] ^ (flip << 4)) >>> 0], [(DEST[0] ^ flip) >>> 0]]
    const match = { source: prefixOf(source, Math.floor(n / 33)), dest: prefixOf(dest, n % 33) }
    return rule(n + 1, [draw.between(0, 1), order(draw, match)], draw.maybe(0.5), match)
  })
}

/** Few matches, each of many rules with other verdicts and ranks. */
function sameMatches(count: number, seed: number): FilterRule[] {
  const draw = dice(seed)
  const matches = Array.from({ length: 7 }, (_, n): FilterMatch => {
    const dest = prefixOf([(DEST[0] + n * 256) >>> 0], 24)
    return n === 0 ? {} : { dest, ...(n > 3 && { protocol: 'tcp', destPorts: [80, 80 + n] }) }
  })
  return Array.from({ length: count }, (_, n) => {
    // What matches everything stands last, or nothing else would ever decide.
    const match = draw.pick(matches)
    const level = Object.keys(match).length === 0 ? 5 : draw.between(0, 4)
    return rule(n + 1, [level, draw.between(0, 999)], draw.maybe(0.5), match)
  })
}

const sourcePorts = each((draw) => ({
  ...draw.pick([{}, { protocol: 'tcp' } as const, { protocol: 'udp' } as const]),
  sourcePort: draw.between(1, 2000),
}))

const macs = each((draw, n) => ({
  mac: n % 3 === 0 ? '02:ce:00:00:00:01' : drawMac(draw),
  ...(draw.maybe(0.5) && { destPorts: [draw.between(1, 300), draw.between(301, 400)] as const }),
}))

const devices = each((draw) => ({
  interface: draw.pick([...DEVICES, NO_DEVICE]),
  ...(draw.maybe(0.98) && { protocol: draw.pick(['tcp', 'udp'] as const), sourcePort: draw.between(1, 500) }),
}))

const lengths6 = each((draw, n) => {
  const flip = draw.between(0, 0xffff)
  const source = SOURCE6.map((word, at) => (at === 3 ? (word ^ flip) >>> 0 : word))
  const [a, b] = [n % 129, draw.between(0, 128)]
  return draw.pick([
    { source: prefixOf(source, a) },
    { dest: prefixOf(DEST6, a) },
    { source: prefixOf(source, a), dest: prefixOf(DEST6, b) },
  ])
})

/** One destination's ports, each rule with the other verdict than the one before it. */
function alternating(count: number, _seed: number): FilterRule[] {
  return Array.from({ length: count }, (_, n) => {
    const low = 1 + ((n * 37) % 60_000)
    const match: FilterMatch = { dest: prefixOf(DEST, 8 + (n % 25)), destPorts: [low, low + (n % 3000)] }
    return rule(n + 1, [0, n % 1_000_000], n % 2 === 0, match)
  })
}

export const ADVERSARIES: readonly Adversary[] = [
  { name: 'ranges of ports', make: ranges },
  { name: 'nested prefixes at one level', make: nested },
  { name: 'all pairs of lengths', make: lengthPairs },
  { name: 'the same match again and again', make: sameMatches },
  { name: 'source ports', make: sourcePorts },
  { name: 'MACs', make: macs },
  { name: 'devices', make: devices },
  { name: 'IPv6 prefixes of all lengths', make: lengths6 },
  { name: 'accept and drop in turn', make: alternating },
]
