/**
 * Lists of rules by a seed, with the shares of a large installation: 30 % one connection, 15 % pairs of networks, 30 % a
 * network's port or range of ports, the rest sources, destinations, MACs, devices, ICMP and ports alone; 10 % IPv6. Rules
 * without an address hold for both families.
 */
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Prefix } from '../../dataplane/nft/text.ts'
import { type Family, prefixOf, width } from './address.ts'
import { type Dice, dice } from './dice.ts'

/** Devices that packets come in by, in the order of a packet's `port`. */
export const DEVICES = ['in0', 'in1', 'in2', 'in3'] as const
/** A device that is not there: its rules never hold. */
export const NO_DEVICE = 'gone0'

const SERVICES = [22, 25, 53, 80, 110, 123, 143, 443, 445, 993, 1433, 1521, 3306, 3389, 5060, 5432, 6379, 8080, 8443]
const RANGES = [
  [1024, 65_535],
  [1, 1023],
  [6000, 6063],
  [30_000, 32_767],
] as const

type Weights = readonly (readonly [number, number])[]
type Shape = 'one' | 'pair' | 'port' | 'range' | 'source' | 'dest' | 'mac' | 'device' | 'icmp' | 'any'

const SHAPES: readonly (readonly [Shape, number])[] = [
  ['one', 30],
  ['pair', 15],
  ['port', 20],
  ['range', 10],
  ['source', 8],
  ['dest', 4],
  ['mac', 4],
  ['device', 4],
  ['icmp', 3],
  ['any', 2],
]

/** How long prefixes are, by weight. */
const LENGTHS: Readonly<Record<Family, { source: Weights; dest: Weights }>> = {
  4: {
    source: [
      [8, 1],
      [12, 2],
      [16, 10],
      [20, 6],
      [22, 6],
      [24, 30],
      [26, 5],
      [28, 10],
      [32, 30],
    ],
    dest: [
      [16, 4],
      [20, 5],
      [24, 25],
      [26, 5],
      [28, 11],
      [32, 50],
    ],
  },
  6: {
    source: [
      [32, 5],
      [48, 25],
      [56, 10],
      [64, 30],
      [128, 30],
    ],
    dest: [
      [48, 15],
      [56, 5],
      [64, 30],
      [128, 50],
    ],
  },
}

/** Levels of decreasing breadth by which tame lists are ordered. */
const TAME_LEVEL: Readonly<Record<Shape, number>> = {
  source: 0,
  dest: 0,
  any: 0,
  icmp: 0,
  device: 1,
  pair: 2,
  port: 3,
  range: 3,
  mac: 4,
  one: 5,
}

interface Site {
  4: number
  6: readonly [number, number]
}

/** Where the prefixes of a list lie: sites of 256 addresses, of which several rules speak. */
interface Land {
  sources: Site[]
  dests: Site[]
  macs: string[]
}

const HIGHEST = 0xffff_ffff

/** Levels and priorities at random. */
export function mixed(count: number, seed: number): FilterRule[] {
  const draw = dice(seed)
  const land = survey(draw, count)
  return Array.from({ length: count }, (_, n) => {
    const { match, drops } = drawMatch(draw, land, draw.weighed(SHAPES))
    const level = draw.maybe(0.6) ? 0 : draw.between(1, 5)
    return rule(n + 1, [level, draw.between(0, 999)], draw.maybe(1 - drops), match)
  })
}

/** As careful people write them: the level follows the shape, three priorities, drops before what they allow. */
export function tame(count: number, seed: number): FilterRule[] {
  const draw = dice(seed)
  const land = survey(draw, count)
  const unordered = Array.from({ length: count }, () => {
    const shape = draw.weighed(SHAPES)
    const { match, drops } = drawMatch(draw, land, shape)
    const priority = draw.weighed([
      [100, 80],
      [50, 10],
      [200, 10],
    ])
    return { match, accept: draw.maybe(1 - drops), rank: [TAME_LEVEL[shape], priority] as const }
  })
  const dropsFirst = [...unordered.filter(({ accept }) => !accept), ...unordered.filter(({ accept }) => accept)]
  return dropsFirst.map(({ match, accept, rank }, n) => rule(n + 1, rank, accept, match))
}

/** A rule whose id is also the last part of its rank. */
export const rule = (
  id: number,
  [level, priority]: readonly [number, number],
  accept: boolean,
  match: FilterMatch,
): FilterRule => ({ kind: 'filter', key: `firewall/${id}`, id, rank: [level, priority, id], accept, match })

export const drawMac = (draw: Dice): string =>
  `02:ce:${Array.from({ length: 4 }, () => draw.between(0, 255).toString(16).padStart(2, '0')).join(':')}`

function survey(draw: Dice, count: number): Land {
  const site = (top: number, top6: number): Site => ({
    4: (((top + draw.between(0, 3)) << 24) | (draw.between(0, 0xffff) << 8)) >>> 0,
    6: [top6 + draw.between(0, 0xffff), draw.between(0, HIGHEST)],
  })
  const sites = Math.max(8, Math.floor(count / 40))
  return {
    sources: Array.from({ length: sites }, () => site(20, 0x2600_0000)),
    dests: Array.from({ length: sites }, () => site(60, 0x2610_0000)),
    macs: Array.from({ length: Math.max(4, Math.floor(count / 50)) }, () => drawMac(draw)),
  }
}

function near(draw: Dice, family: Family, sites: readonly Site[], length: number): Prefix {
  const site = draw.pick(sites)
  if (family === 4) {
    const host = draw.maybe(0.5)
      ? site[4] + draw.between(0, 255)
      : ((site[4] & 0xffff_0000) >>> 0) + draw.between(0, 0xffff)
    return prefixOf([host], length)
  }
  const [first, second] = site[6]
  const subnet = draw.maybe(0.7) ? ((second & 0xffff_0000) >>> 0) + draw.between(0, 0xffff) : second
  return prefixOf([first, subnet, draw.maybe(0.5) ? 0 : draw.between(0, HIGHEST), draw.between(0, 0xffff)], length)
}

function drawMatch(draw: Dice, land: Land, shape: Shape): { match: FilterMatch; drops: number } {
  const family: Family = draw.maybe(0.1) ? 6 : 4
  const narrow = family === 4 ? 24 : 64
  const length = (side: 'source' | 'dest') => draw.weighed(LENGTHS[family][side])
  const source = (bits = length('source')) => ({ source: near(draw, family, land.sources, bits) })
  const dest = (bits = length('dest')) => ({ dest: near(draw, family, land.dests, bits) })
  const protocol = () => ({ protocol: draw.maybe(0.8) ? ('tcp' as const) : ('udp' as const) })
  const service = () => {
    const port = draw.maybe(0.7) ? draw.pick(SERVICES) : draw.between(1024, 61_024)
    return { destPorts: [port, port] as const }
  }
  const drops = 0.4
  switch (shape) {
    case 'one': {
      const all = width(family)
      const from = draw.maybe(1 / 3) ? { sourcePort: draw.between(1024, 61_024) } : {}
      return { match: { ...protocol(), ...source(all), ...dest(all), ...from, ...service() }, drops }
    }
    case 'pair':
      return { match: { ...source(), ...dest() }, drops }
    case 'port':
      return { match: { ...protocol(), ...(draw.maybe(0.7) && source()), ...dest(), ...service() }, drops }
    case 'range': {
      const low = draw.between(1, 60_000)
      const destPorts = draw.maybe(0.8) ? draw.pick(RANGES) : ([low, low + draw.between(1, 5000)] as const)
      const match = { ...protocol(), ...(draw.maybe(0.6) && source()), ...dest(Math.max(length('dest'), narrow)) }
      return { match: { ...match, destPorts }, drops }
    }
    case 'source':
      return { match: source(Math.max(length('source'), family === 4 ? 20 : 48)), drops: 0.9 }
    case 'dest':
      return { match: dest(Math.max(length('dest'), narrow)), drops }
    case 'mac': {
      const mac = draw.pick(land.macs)
      const more = draw.pick([() => ({}), () => ({ ...protocol(), ...service() }), () => source(width(family))])
      return { match: { mac, ...more() }, drops }
    }
    case 'device': {
      const device = draw.maybe(0.95) ? draw.pick(DEVICES) : NO_DEVICE
      return { match: { interface: device, ...dest(), ...(draw.maybe(0.5) && { ...protocol(), ...service() }) }, drops }
    }
    case 'icmp': {
      const [from, to] = [near(draw, 4, land.sources, 24), near(draw, 4, land.dests, draw.pick([24, 32]))]
      return { match: { protocol: 'icmp', dest: to, ...(draw.maybe(0.5) && { source: from }) }, drops }
    }
    case 'any': {
      const port = draw.between(1, 65_535)
      return { match: { ...(draw.maybe(0.5) && protocol()), destPorts: [port, port] }, drops }
    }
  }
}
