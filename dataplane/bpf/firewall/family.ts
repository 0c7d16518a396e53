/**
 * The rules of one address family: where each is filed, and how it gets there and away. Every rule stands under one key
 * of one table; a range of ports, when there is no room for the whole of it, in parts under several keys.
 */
import type { Arena, Block } from './arena.ts'
import { compareRank, type Family, type Image, idOf, LENGTHS, rank64, UNTIL, word } from './image.ts'
import { EVERYTHING, fits, fitsBesidesPort, hashOf, type Mask, portsIn, type Shape, sameMask, shapeOf } from './mask.ts'
import { RUN_LIMIT } from './plan.ts'
import { cellsOf, PORT_LENGTHS } from './ports.ts'
import type { Table, TableSet } from './table-set.ts'

/** Tables that rules added one by one may come to; the rest of the numbers is for a new plan beside an old one. */
const TABLES_AT_MOST = 40

/** What a change to the runs leaves behind. */
export interface Traces {
  /** Slots to tidy after a grace period. */
  slots: number[]
  /** Blocks that are free after one. */
  freed: Block[]
}

/** Rules by the hash of the run in which they shall stand. */
export type Laid = Map<number, Image[]>

export class FilterFamily {
  readonly family: Family
  readonly tables: TableSet
  readonly #seed: number
  arena: Arena
  /** Whether rules may stand in more than one table as a whole, as they do while they move. */
  mayStandTwice = false
  /** Cell of the hits of each rule that is in force, by its id. */
  readonly hits = new Map<number, number>()

  constructor(arena: Arena, tables: TableSet, seed: number) {
    this.family = arena.family
    this.arena = arena
    this.tables = tables
    this.#seed = seed
  }

  /** Chooses where a rule shall stand, and lays it there. @throws NoRoom */
  place(image: Image, laid: Laid): void {
    const shape = shapeOf(image, this.family)
    const table = this.#tableFor(image, shape, laid)
    if (table !== undefined) {
      this.#lay(image, table, [shape.first], laid)
      return
    }
    for (const destPort of PORT_LENGTHS) {
      const ports = cellsOf(shape.first, shape.last, destPort)
      if (ports.length === 0) continue
      this.#lay(image, this.tables.take({ ...this.#ownMask(shape), destPort }), ports, laid)
    }
  }

  /** Puts rules where they shall stand. Packets meet them as soon as their generation is reached. @throws NoRoom */
  file(hash: number, rules: readonly Image[], traces: Traces): void {
    const { slot, freed } = this.arena.insert(hash, rules)
    traces.slots.push(slot)
    if (freed) traces.freed.push(freed)
  }

  /** The slots of the runs in which a rule of this match and rank stands and has no end. */
  slotsOf(image: Image): number[] {
    const out: number[] = []
    const shape = shapeOf(image, this.family)
    for (const table of this.tables.all()) {
      if (!fitsBesidesPort(shape, table.mask)) continue
      for (const port of portsIn(shape, table.mask)) {
        const slot = this.arena.slotOf(this.#hash(image, table, port))
        if (slot === undefined || !this.standsIn(slot, image)) continue
        out.push(slot)
        // Parts of a range may have stayed where it once stood in parts.
        if (!this.mayStandTwice && !isRange(shape) && fits(shape, table.mask)) return out
      }
    }
    return out
  }

  /** Whether a rule of this rank without an end stands in a slot's run. */
  standsIn(slot: number, image: Image): boolean {
    const [first, count] = this.arena.runAt(slot)
    for (let i = 0; i < count; i++) if (isStanding(this.arena.cell(first + i), image)) return true
    return false
  }

  /** The same for the run under a hash. */
  standsUnder(hash: number, image: Image): boolean {
    const slot = this.arena.slotOf(hash)
    return slot !== undefined && this.standsIn(slot, image)
  }

  /** Whether a rule stands in a run of this hash because of tables that leave, and of no other. */
  isIn(leaving: readonly Table[], image: Image, hash: number): boolean {
    const shape = shapeOf(image, this.family)
    const isBecauseOf = (table: Table) =>
      fitsBesidesPort(shape, table.mask) &&
      portsIn(shape, table.mask).some((port) => this.#hash(image, table, port) === hash)
    return leaving.some(isBecauseOf) && !this.tables.all().some((it) => !leaving.includes(it) && isBecauseOf(it))
  }

  /** Whether a rule stands in tables that stay, whole or in all of its parts. */
  staysIn(image: Image): boolean {
    const shape = shapeOf(image, this.family)
    const open = this.tables.all().filter(({ leaving, mask }) => !leaving && fitsBesidesPort(shape, mask))
    const standsAt = (table: Table, port: number) => this.standsUnder(this.#hash(image, table, port), image)
    if (open.some((table) => fits(shape, table.mask) && standsAt(table, shape.first))) return true
    return PORT_LENGTHS.every((length) => {
      const tables = open.filter(({ mask }) => mask.destPort === length)
      return cellsOf(shape.first, shape.last, length).every((port) => tables.some((table) => standsAt(table, port)))
    })
  }

  /** Where a rule would stand best: where the fewest stand with it. Undefined: in parts. @throws NoRoom */
  #tableFor(image: Image, shape: Shape, laid: Laid): Table | undefined {
    const open = this.tables.all().filter(({ leaving }) => !leaving)
    if (open.length === 0) return this.tables.take(EVERYTHING)
    let best: Table | undefined
    let least = Number.POSITIVE_INFINITY
    for (const table of open) {
      if (!fits(shape, table.mask)) continue
      const hash = this.#hash(image, table, shape.first)
      const count = this.arena.count(hash) + (laid.get(hash)?.length ?? 0)
      if (count < least) [best, least] = [table, count]
      if (least === 0) break
    }
    if (best !== undefined && least < RUN_LIMIT) return best
    const mayMake = (count: number) => open.length + count <= TABLES_AT_MOST && this.tables.hasRoom(count)
    if (isRange(shape) && mayMake(PORT_LENGTHS.length)) return undefined
    const own = this.#ownMask(shape)
    const isKnown = open.some(({ mask }) => sameMask(mask, own))
    if (!isKnown && mayMake(1)) return this.tables.take(own)
    return best ?? this.tables.take(EVERYTHING)
  }

  /** The mask that asks for as much as the rule does, and for its destination port when that is one. */
  #ownMask(shape: Shape): Mask {
    const quantized = (length: number) => LENGTHS[this.family].findLast((it) => it <= length) ?? 0
    return {
      source: quantized(shape.source),
      dest: quantized(shape.dest),
      sourcePort: shape.sourcePort,
      destPort: shape.first === shape.last ? 16 : 0,
      mac: shape.mac,
      device: shape.device,
    }
  }

  #lay(image: Image, table: Table, ports: readonly number[], laid: Laid): void {
    this.tables.lower(table, rank64(image))
    for (const port of ports) {
      const hash = this.#hash(image, table, port)
      const others = laid.get(hash)
      if (others) others.push(image)
      else laid.set(hash, [image])
    }
  }

  #hash(image: Image, table: Table, port: number): number {
    return hashOf(image, this.family, table.mask, port, { seed: this.#seed, table: table.number })
  }
}

/** Whether a rule of a run is this one, and has no end. Of one rank there may be another, which has taken its place. */
export const isStanding = (rule: Image, image: Image): boolean =>
  word(rule, UNTIL) === 0 && compareRank(rule, image) === 0 && idOf(rule) === idOf(image)

/** Whether a rule asks for several destination ports, and not for any. */
const isRange = ({ first, last }: Shape): boolean => first !== last && first + 65_535 - last > 1
