/**
 * The memory of one family's rules (struct filter_cell4 and 6 of bpf/src/classify_family.h), which packets read while it
 * is written: whatever a slot of the hash leads to stays as it is until a grace period has passed, but for single words.
 */
import { FILTER_CELL4, FILTER_CELL6, FILTER_LINES, FILTER_PAGE, FILTER_RUN } from '../../numbers.ts'
import { bytes, u32 } from '../codec.ts'
import { MAP_TYPE, type MapShape } from '../map.ts'
import { type Mapping, mapMemory } from '../mapped.ts'
import { compareRank, type Family, FROM, type Image, idOf, RANK_HIGH, RANK_LOW, UNTIL, word } from './image.ts'
import { NoRoom, Room } from './room.ts'

/** linux/bpf.h */
const MMAPABLE = 0x400
const INNER_MAP = 0x1000

/** One line of the hash for so many cells. */
const CELLS_PER_LINE = 8

/** Cells in a row, as taken from the room. */
export type Block = readonly [first: number, count: number]

export const cellBytes = (family: Family): number => (family === 4 ? FILTER_CELL4 : FILTER_CELL6)

/** The map of an arena of `cells`, a power of two. */
export function arenaMap(family: Family, cells: number): MapShape<number, Uint8Array> {
  const value = bytes(FILTER_PAGE * cellBytes(family))
  const maxEntries = cells / FILTER_PAGE
  const flags = MMAPABLE | INNER_MAP
  return { name: `filter_cells${family}`, type: MAP_TYPE.array, maxEntries, key: u32, value, flags }
}

export class Arena {
  readonly family: Family
  readonly cells: number
  readonly #mapping: Mapping
  #words: Uint32Array
  #longs: BigUint64Array
  readonly #lineMask: number
  readonly room: Room

  /** `fresh`: the map is new, and its hash is made. Otherwise `adopt` must tell the room what is in use. */
  constructor(family: Family, map: { fd: number; cells: number }, fresh: boolean) {
    this.family = family
    this.cells = map.cells
    this.#mapping = mapMemory(map.fd, map.cells * cellBytes(family), `filter_cells${family}`)
    this.#words = new Uint32Array(this.#mapping.buffer)
    this.#longs = new BigUint64Array(this.#mapping.buffer)
    if (fresh) this.#words[0] = map.cells / CELLS_PER_LINE - 1
    this.#lineMask = this.#words[0] ?? 0
    this.room = new Room(family, 2 + this.#lineMask, map.cells)
  }

  /** The words of a cell, as they are: for reading, and for single words that packets may see change. */
  cell(at: number): Image {
    const size = cellBytes(this.family) / 4
    return this.#words.subarray(at * size, (at + 1) * size)
  }

  /** The 64-bit words of a cell. */
  longs(at: number): BigUint64Array {
    const size = cellBytes(this.family) / 8
    return this.#longs.subarray(at * size, (at + 1) * size)
  }

  /** Takes a cell of zeros. @throws NoRoom */
  takeCell(): number {
    const at = this.room.take(1)
    const size = cellBytes(this.family) / 4
    this.#words.fill(0, at * size, (at + 1) * size)
    return at
  }

  /** Index of the slot of the run under this hash. */
  slotOf(hash: number): number | undefined {
    const tag = tagOf(hash)
    const size = cellBytes(this.family) / 8
    let cell = 1 + (hash & this.#lineMask)
    for (let hop = 0; hop < FILTER_LINES && cell !== 0; hop++) {
      for (let slot = cell * size; slot < (cell + 1) * size - 1; slot++) {
        if (this.#high(slot) >>> 4 === tag) return slot
      }
      cell = this.#nextLine(cell)
    }
    return undefined
  }

  /** The run that a slot leads to. */
  runAt(slot: number): Block {
    return [this.#first(slot), this.#length(slot)]
  }

  /** The rules of a slot's run, by rank. */
  *rules(slot: number): Generator<Image> {
    const [first, count] = this.runAt(slot)
    for (let i = 0; i < count; i++) yield this.cell(first + i)
  }

  /** How many rules stand under this hash. */
  count(hash: number): number {
    const slot = this.slotOf(hash)
    return slot === undefined ? 0 : this.#length(slot)
  }

  /** The cell in a slot's run of the rule with this id that has no end. */
  cellOf(slot: number, id: number): number | undefined {
    const [first, count] = [this.#first(slot), this.#length(slot)]
    for (let at = first; at < first + count; at++) if (this.#stands(at, id)) return at
    return undefined
  }

  /** Gives the rule with this id an end wherever it has none in a slot's run. Returns its cell. */
  end(slot: number, id: number, generation: number): number | undefined {
    const size = cellBytes(this.family) / 4
    const [first, count] = [this.#first(slot), this.#length(slot)]
    let found: number | undefined
    for (let at = first; at < first + count; at++) {
      if (!this.#stands(at, id)) continue
      this.#words[at * size + UNTIL] = generation
      found = at
    }
    return found
  }

  /**
   * Puts rules in the run under this hash, which goes to another place for that. Returns its slot and the block that is
   * free after a grace period. @throws NoRoom
   */
  insert(hash: number, rules: readonly Image[]): { slot: number; freed?: Block } {
    const known = this.slotOf(hash)
    const from = known === undefined ? 0 : this.#first(known)
    const count = known === undefined ? 0 : this.#length(known)
    const total = count + rules.length
    if (total > FILTER_RUN) throw new NoRoom(`more than ${FILTER_RUN} rules differ in nothing that tables tell apart`)
    const slot = known ?? this.#emptySlot(hash)
    const first = this.room.take(total)
    const sorted = rules.length > 1 ? [...rules].sort(compareRank) : rules
    const size = cellBytes(this.family) / 4
    let read = from
    let write = first
    for (const rule of sorted) {
      const start = read
      while (read < from + count && !this.#isBehind(read, rule)) read++
      this.#copy(start, write, read - start)
      write += read - start
      this.#words.set(rule, write++ * size)
    }
    this.#copy(read, write, from + count - read)
    this.#store(slot, tagOf(hash), first, total)
    return count === 0 ? { slot } : { slot, freed: [from, count] }
  }

  /**
   * Tidies a run when a grace period has passed since `generation`: rules that ended by then go, and those that began by
   * then are in force whatever the generation. Returns what is free after another grace period.
   */
  tidy(slot: number, generation: number): Block | undefined {
    const size = cellBytes(this.family) / 4
    const [from, count] = [this.#first(slot), this.#length(slot)]
    const kept: number[] = []
    for (let at = from; at < from + count; at++) {
      if (!isPast(word(this.#words, at * size + UNTIL), generation)) kept.push(at)
      if (isPast(word(this.#words, at * size + FROM), generation)) this.#words[at * size + FROM] = 0
    }
    return kept.length === count ? undefined : this.#keep(slot, kept)
  }

  /** Takes the rule with this id out of a run unless it has an end; returns what is free after a grace period. @throws NoRoom */
  remove(slot: number, id: number): Block | undefined {
    const [from, count] = [this.#first(slot), this.#length(slot)]
    const kept: number[] = []
    for (let at = from; at < from + count; at++) if (!this.#stands(at, id)) kept.push(at)
    return kept.length === count ? undefined : this.#keep(slot, kept)
  }

  /** Every run: its slot and its hash. With `lines`, the cells that continue lines are put in there. */
  *runs(lines: number[] = []): Generator<{ slot: number; hash: number }> {
    const size = cellBytes(this.family) / 8
    for (let line = 0; line <= this.#lineMask; line++) {
      for (let cell = 1 + line, hop = 0; cell !== 0; cell = this.#nextLine(cell), hop++) {
        if (hop > 0) lines.push(cell)
        for (let slot = cell * size; slot < (cell + 1) * size - 1; slot++) {
          const tag = this.#high(slot) >>> 4
          // Tag 1 stands for 0 as well, of which there are the first 16 lines only.
          if (tag !== 0) yield { slot, hash: (tag === 1 && line < 16 ? line : tag * 16 + (line & 15)) >>> 0 }
        }
      }
    }
  }

  close(): void {
    // Without memory behind it an access must fail in JavaScript, not in the processor.
    this.#words = new Uint32Array(0)
    this.#longs = new BigUint64Array(0)
    this.#mapping.unmap()
  }

  #keep(slot: number, kept: readonly number[]): Block {
    const freed = this.runAt(slot)
    if (kept.length === 0) {
      Atomics.store(this.#longs, slot, 0n)
      return freed
    }
    const first = this.room.take(kept.length)
    for (const [i, at] of kept.entries()) this.#copy(at, first + i, 1)
    this.#store(slot, this.#high(slot) >>> 4, first, kept.length)
    return freed
  }

  #copy(from: number, to: number, count: number): void {
    const size = cellBytes(this.family) / 4
    this.#words.copyWithin(to * size, from * size, (from + count) * size)
  }

  /** From one run to another in one step. */
  #store(slot: number, tag: number, first: number, count: number): void {
    const high = tag * 16 + (count >>> 8)
    const low = (count & 0xff) * 2 ** 24 + first
    Atomics.store(this.#longs, slot, (BigInt(high) << 32n) | BigInt(low))
  }

  #first(slot: number): number {
    return word(this.#words, 2 * slot) & 0xffffff
  }

  #length(slot: number): number {
    return ((this.#high(slot) & 0xf) << 8) | (word(this.#words, 2 * slot) >>> 24)
  }

  /** Whether the rule of a cell is the one with this id, and has no end. */
  #stands(cell: number, id: number): boolean {
    const at = (cell * cellBytes(this.family)) / 4
    return word(this.#words, at + UNTIL) === 0 && idOf(this.#words, at) === id
  }

  /** Whether the rule of a cell stands behind another. */
  #isBehind(cell: number, rule: Image): boolean {
    const at = (cell * cellBytes(this.family)) / 4
    const differs = word(this.#words, at + RANK_HIGH) - word(rule, RANK_HIGH)
    return differs > 0 || (differs === 0 && word(this.#words, at + RANK_LOW) > word(rule, RANK_LOW))
  }

  /** Upper half of a slot: the tag and the upper bits of the count. */
  #high(slot: number): number {
    return this.#words[2 * slot + 1] ?? 0
  }

  /** A slot for a new run; where the line is full, a cell is taken to continue it. @throws NoRoom */
  #emptySlot(hash: number): number {
    const size = cellBytes(this.family) / 8
    let cell = 1 + (hash & this.#lineMask)
    for (let lines = 1; ; lines++) {
      for (let slot = cell * size; slot < (cell + 1) * size - 1; slot++) if (this.#longs[slot] === 0n) return slot
      const next = this.#nextLine(cell)
      if (next === 0 && lines === FILTER_LINES) throw new NoRoom('no room is left for rules', this.family)
      if (next === 0) {
        const more = this.takeCell()
        Atomics.store(this.#longs, (cell + 1) * size - 1, BigInt(more))
        return more * size
      }
      cell = next
    }
  }

  #nextLine(cell: number): number {
    const size = cellBytes(this.family) / 8
    return this.#words[2 * ((cell + 1) * size - 1)] ?? 0
  }
}

/** The upper bits of a hash; 0 is kept for slots that are free. */
const tagOf = (hash: number): number => hash >>> 4 || 1

/** Whether a mark is set and its generation was reached by `generation`. */
const isPast = (mark: number, generation: number): boolean => mark !== 0 && ((generation - mark) | 0) >= 0
