/**
 * The rules of one address family: where each is filed, and how it gets there and away. Every rule stands under one key
 * of one table; a range of ports, when there is no room for the whole of it, in parts under several keys.
 */
import type { Arena, Block } from './arena.ts'
import { type Family, type Image, LENGTHS } from './image.ts'
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

/** One run in which a rule stands. */
export interface Place {
  slot: number
  /** In which packets look for it there; undefined: in none, and it is about to go. */
  table: Table | undefined
}

/** A rule that has no end, as this family has it. */
export interface Standing {
  /** The cell of its hits. */
  hits: number
  places: Place[]
}

/** A rule on its way to a run; the place is added to `places` once it is there. */
export interface Filing {
  image: Image
  places: Place[]
  table: Table
}

/** What is to be filed, by the hash of the run. */
export type Laid = Map<number, Filing[]>

export class FilterFamily {
  readonly family: Family
  readonly tables: TableSet
  readonly #seed: number
  arena: Arena
  /** Every rule that is in force, by its id. */
  standing = new Map<number, Standing>()

  constructor(arena: Arena, tables: TableSet, seed: number) {
    this.family = arena.family
    this.arena = arena
    this.tables = tables
    this.#seed = seed
  }

  /** Chooses where a rule shall stand, and lays it there. @throws NoRoom */
  place(image: Image, places: Place[], laid: Laid): void {
    const shape = shapeOf(image, this.family)
    const table = this.#tableFor(image, shape, laid)
    if (table !== undefined) {
      this.#lay({ image, places, table }, [shape.first], laid)
      return
    }
    for (const destPort of PORT_LENGTHS) {
      const ports = cellsOf(shape.first, shape.last, destPort)
      if (ports.length === 0) continue
      this.#lay({ image, places, table: this.tables.take({ ...this.#ownMask(shape), destPort }) }, ports, laid)
    }
  }

  /** Puts rules where they shall stand. Packets meet them as soon as their generation is reached. @throws NoRoom */
  file(hash: number, filings: readonly Filing[], traces: Traces): void {
    const images = filings.map(({ image }) => image)
    const { slot, freed } = this.arena.insert(hash, images)
    traces.slots.push(slot)
    if (freed) traces.freed.push(freed)
    for (const { places, table } of filings) hold(places, slot, table)
  }

  /** Nobody looks for a rule in these places any longer. */
  release(places: readonly Place[]): void {
    for (const place of places) {
      if (place.table) place.table.places--
      place.table = undefined
    }
  }

  /** The words of a rule as they stand in the arena. */
  imageOf(id: number, { places }: Standing): Image | undefined {
    for (const { slot } of places) {
      const cell = this.arena.cellOf(slot, id)
      if (cell !== undefined) return this.arena.cell(cell)
    }
    return undefined
  }

  /** Takes over a rule that an earlier agent filed under a hash. */
  adopt(places: Place[], image: Image, slot: number, hash: number): void {
    const shape = shapeOf(image, this.family)
    const tables = this.tables.all().filter((table) => {
      if (!fitsBesidesPort(shape, table.mask)) return false
      return portsIn(shape, table.mask).some((port) => this.#hash(image, table, port) === hash)
    })
    for (const table of tables) hold(places, slot, table)
    // Of a table that it had closed already.
    if (tables.length === 0) places.push({ slot, table: undefined })
  }

  /** Where a rule would stand best: where the fewest stand with it. Undefined: in parts. @throws NoRoom */
  #tableFor(image: Image, shape: Shape, laid: Laid): Table | undefined {
    const tables = this.tables.all()
    let open = 0
    let best: Table | undefined
    let least = Number.POSITIVE_INFINITY
    for (const table of tables) {
      if (table.leaving) continue
      open++
      if (least === 0 || !fits(shape, table.mask)) continue
      const hash = this.#hash(image, table, shape.first)
      const count = this.arena.count(hash) + (laid.get(hash)?.length ?? 0)
      if (count < least) [best, least] = [table, count]
    }
    if (open === 0) return this.tables.take(EVERYTHING)
    if (best !== undefined && least < RUN_LIMIT) return best
    const mayMake = (count: number) => open + count <= TABLES_AT_MOST && this.tables.hasRoom(count)
    if (isRange(shape) && mayMake(PORT_LENGTHS.length)) return undefined
    const own = this.#ownMask(shape)
    const isKnown = tables.some(({ leaving, mask }) => !leaving && sameMask(mask, own))
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

  #lay(filing: Filing, ports: readonly number[], laid: Laid): void {
    this.tables.lower(filing.table, filing.image)
    for (const port of ports) {
      const hash = this.#hash(filing.image, filing.table, port)
      const others = laid.get(hash)
      if (others) others.push(filing)
      else laid.set(hash, [filing])
    }
  }

  #hash(image: Image, table: Table, port: number): number {
    return hashOf(image, this.family, table.mask, port, { seed: this.#seed, table: table.number })
  }
}

/** A rule is looked for in a slot's run because of a table. */
export function hold(places: Place[], slot: number, table: Table): void {
  places.push({ slot, table })
  table.places++
}

/** Whether a rule asks for several destination ports, and not for any. */
const isRange = ({ first, last }: Shape): boolean => first !== last && first + 65_535 - last > 1
