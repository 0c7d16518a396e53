/** What the tests of the classifier share: one in small arenas that no packet sees, and the search of the programs in JavaScript. */
import { bytesOf, type Words } from '../../../../test/firewall/address.ts'
import type { Packet } from '../../../../test/firewall/packets.ts'
import type { Scope } from '../../../../test/netns.ts'
import { type Prefix, parsePrefix } from '../../../nft/text.ts'
import { type BpfMap, createMap } from '../../map.ts'
import { Arena, arenaMap } from '../arena.ts'
import { Classifier } from '../classifier.ts'
import { DeviceNames } from '../devices.ts'
import type { FilterMatch, FilterRule } from '../entries.ts'
import { FilterFamily } from '../family.ts'
import {
  ADDRESSES,
  addressWords,
  cellWords,
  destPorts,
  deviceOf,
  type Family,
  FROM,
  HITS,
  hasMac,
  type Image,
  idOf,
  MAC_HIGH,
  MAC_LOW,
  macWords,
  rank64,
  sourcePort,
  UNTIL,
  WINDOW,
  word,
} from '../image.ts'
import { hashOf } from '../mask.ts'
import { NoRoom, Room } from '../room.ts'
import { Settings } from '../settings.ts'
import { TABLES_BYTES, TableSet } from '../table-set.ts'
import { sweep } from '../upkeep.ts'

/** Seed of the draws of a test file, printed by it; SEED chooses another. */
export const SEED = Number(process.env.SEED ?? 1)

export const FAMILIES: readonly Family[] = [4, 6]

/** A rule with rank and match, to be changed where a test asks for it. */
export const ruleWith = (id: number, match: FilterMatch, more: Partial<FilterRule> = {}): FilterRule => ({
  kind: 'filter',
  key: `firewall/${id}`,
  id,
  rank: [0, 100, id],
  accept: true,
  match,
  ...more,
})

export function prefix(text: string): Prefix {
  const parsed = parsePrefix(text)
  if (!parsed) throw new TypeError(`no prefix: ${text}`)
  return parsed
}

/** An arena of so many cells, a power of two and 128 at least; its memory goes when the test ends. */
export function arena(t: Scope, family: Family, cells: number): Arena {
  const map = createMap(arenaMap(family, cells))
  const made = new Arena(family, { fd: map.fd, cells }, true)
  map.close()
  t.teardown(() => made.close())
  return made
}

/** The same memory as an agent meets it that comes later. */
export function tables(): ArrayBuffer {
  return new ArrayBuffer(2 * TABLES_BYTES)
}

/** A device for which there is no room. */
export const FULL = 'full0'

/** Stands for map `filter_devices`. */
export class DeviceMap {
  readonly held = new Map<string, number>()
  entries = () => this.held.entries()
  set(name: string, number: number): void {
    if (name === FULL) throw new NoRoom('no more devices')
    this.held.set(name, number)
  }
  delete = (name: string) => this.held.delete(name)
}

export interface Small {
  classifier: Classifier
  families: readonly [FilterFamily, FilterFamily]
  settings: Settings
  devices: DeviceMap
  /** The words of `filter_settings`. */
  words: Uint32Array
}

export function small(t: Scope, cells: readonly [number, number] = [4096, 4096]): Small {
  const [memory, own] = [tables(), new ArrayBuffer(64)]
  const settings = new Settings(own)
  settings.seed = 0x5eed ^ SEED
  settings.generation = 1
  const devices = new DeviceMap()
  const of = (family: Family, count: number) =>
    new FilterFamily(arena(t, family, count), new TableSet(family, memory), settings.seed)
  const families = [of(4, cells[0]), of(6, cells[1])] as const
  const names = new DeviceNames(devices as unknown as BpfMap<string, number>)
  return {
    classifier: new Classifier(families, names, settings),
    families,
    settings,
    devices,
    words: new Uint32Array(own),
  }
}

/** Which rule decides a packet in a generation: what bpf/src/classify_family.h does, table by table. */
export function judge(
  { families, settings, devices }: Small,
  packet: Packet,
  generation = settings.generation,
): number {
  const family = packet.family === 4 ? families[0] : families[1]
  const asks = question(packet, devices.held.get(packet.interface) ?? 0)
  let best: Image | undefined
  for (const { mask, number } of family.tables.all()) {
    const hash = hashOf(asks, family.family, mask, packet.destPort, { seed: settings.seed, table: number })
    const slot = family.arena.slotOf(hash)
    if (slot === undefined) continue
    for (const rule of family.arena.rules(slot)) {
      if (best && rank64(rule) >= rank64(best)) break
      if (!matches(asks, packet, rule, family.family) || !inForce(rule, generation)) continue
      best = rule
      break
    }
  }
  return best ? idOf(best) : 0
}

function inForce(rule: Image, generation: number): boolean {
  const [from, until] = [word(rule, FROM), word(rule, UNTIL)]
  if (from !== 0 && ((generation - from) | 0) < 0) return false
  return until === 0 || ((generation - until) | 0) < 0
}

/** A packet as the words that a rule would have which asks for all of it. */
export function question(packet: Packet, device: number): Image {
  const image = new Uint32Array(cellWords(packet.family))
  const width = addressWords(packet.family)
  image.set(inNetworkOrder(packet.source), ADDRESSES)
  image.set(inNetworkOrder(packet.dest), ADDRESSES + width)
  image[8] = packet.sourcePort | (packet.destPort << 16)
  image[7] = device << 16
  const [low, high] = macWords(packet.mac)
  image[MAC_LOW] = low
  image[MAC_HIGH] = high
  return image
}

const inNetworkOrder = (words: Words): number[] => words.map((it) => Buffer.from(bytesOf([it])).readUInt32LE())

function matches(asks: Image, packet: Packet, rule: Image, family: Family): boolean {
  const width = addressWords(family)
  for (let i = 0; i < 2 * width; i++) {
    const at = ADDRESSES + i
    if (((word(asks, at) ^ word(rule, at)) & word(rule, at + 2 * width)) !== 0) return false
  }
  const protocol = (word(rule, 9) >>> 16) & 0xff
  const [first, last] = destPorts(rule)
  return (
    (protocol === 0 || protocol === packet.protocol) &&
    packet.destPort >= first &&
    packet.destPort <= last &&
    (sourcePort(rule) === 0 || sourcePort(rule) === packet.sourcePort) &&
    (deviceOf(rule) === 0 || deviceOf(rule) === deviceOf(asks)) &&
    (!hasMac(rule) ||
      (word(rule, MAC_LOW) === word(asks, MAC_LOW) && (word(rule, MAC_HIGH) & 0xffff) === word(asks, MAC_HIGH)))
  )
}

/** How many cells are taken by what a family needs: runs, lines that go on, hits and windows. */
export function needed({ arena }: FilterFamily): number {
  const lines: number[] = []
  const single = new Set<number>()
  const room = new Room(arena.family, 0, arena.cells)
  for (const { slot } of arena.runs(lines)) {
    room.take(arena.runAt(slot)[1])
    for (const rule of arena.rules(slot)) {
      single.add(word(rule, HITS))
      if (word(rule, WINDOW) !== 0) single.add(word(rule, WINDOW))
    }
  }
  // A room of its own gives out blocks of the same sizes.
  return room.used + lines.length + single.size
}

/** The cell of hits of each rule. */
export const hitCells = ({ standing }: FilterFamily): Map<number, number> =>
  new Map([...standing].map(([id, { hits }]) => [id, hits]))

/** What a family believes wrongly of where its rules stand. */
export function misplaced({ arena, standing, tables }: FilterFamily): string[] {
  const wrong: string[] = []
  const places = [...standing.values()].flatMap((rule) => rule.places)
  for (const table of tables.all()) {
    const count = places.filter((place) => place.table === table).length
    if (count !== table.places) wrong.push(`table ${table.number} has ${count} places and counts ${table.places}`)
  }
  for (const [id, rule] of standing) {
    if (!rule.places.some(({ table }) => table !== undefined)) wrong.push(`no packet finds rule ${id}`)
    for (const { slot } of rule.places) {
      if (arena.cellOf(slot, id) === undefined) wrong.push(`rule ${id} does not stand in slot ${slot}`)
    }
  }
  for (const { slot } of arena.runs()) {
    for (const image of arena.rules(slot)) {
      const known = word(image, UNTIL) !== 0 || standing.get(idOf(image))?.places.some((place) => place.slot === slot)
      if (!known) wrong.push(`rule ${idOf(image)} stands in slot ${slot}, too`)
    }
  }
  return wrong
}

/** Marks of rules that were left: each of a rule that holds without an end or a beginning is none. */
export function marks({ arena }: FilterFamily): number {
  let count = 0
  for (const { slot } of arena.runs()) {
    for (const rule of arena.rules(slot)) if (word(rule, FROM) !== 0 || word(rule, UNTIL) !== 0) count++
  }
  return count
}

/** Does away with what changes have left behind, as after grace periods, to the end. */
export async function sweepAll({ classifier }: Pick<Small, 'classifier'>): Promise<void> {
  for (let rest = classifier.take(); rest.length > 0; rest = classifier.take()) while (await sweep(classifier, rest));
}
