/** The tables of one family in map `filter_tables`: which masks there are, and the best rank in each. */
import { FILTER_TABLES } from '../../numbers.ts'
import { type Family, type Image, RANK_HIGH, RANK_LOW, rank64, word } from './image.ts'
import { fieldsWord, type KeyMask, keyMask, type Mask, maskOf, portWord, sameMask } from './mask.ts'
import { NoRoom } from './room.ts'

/** struct filter_tables of bpf/src/classify.h: a head of 64 bytes and so much for each table. */
export const TABLE_BYTES = 64
export const TABLES_BYTES = TABLE_BYTES * (1 + FILTER_TABLES)
const TABLE_WORDS = TABLE_BYTES / 4
const TABLE_LONGS = TABLE_BYTES / 8

/** Of a table in which nothing is looked for. */
const NOTHING = 0xffff_ffff_ffff_ffffn

export interface Table {
  readonly number: number
  readonly mask: KeyMask
  /** Nothing new is filed here. */
  leaving: boolean
  /** How often it was to go and then stayed. */
  returns: number
  /** Places of rules in it: one for each that stands there whole, or for each of its parts. */
  places: number
}

export class TableSet {
  readonly #family: Family
  readonly #words: Uint32Array
  readonly #longs: BigUint64Array
  readonly #tables: (Table | undefined)[] = []
  /** Those that are not closed. */
  #open: Table[] = []

  /** `memory` is that of the whole map; takes over the tables that stand there. */
  constructor(family: Family, memory: ArrayBuffer) {
    this.#family = family
    const at = family === 4 ? 0 : TABLES_BYTES
    this.#words = new Uint32Array(memory, at, TABLES_BYTES / 4)
    this.#longs = new BigUint64Array(memory, at, TABLES_BYTES / 8)
    for (let number = 0; number < this.#count; number++) {
      const mask = this.#read(number)
      if (this.#best(number) !== NOTHING) this.#tables[number] = newTable(number, mask)
    }
    this.#open = this.#tables.filter((it) => it !== undefined)
  }

  /** Those that rules may stand in. */
  all(): readonly Table[] {
    return this.#open
  }

  /** Whether so many can be made; one is kept for rules that fit nowhere else. */
  hasRoom(count: number): boolean {
    return this.#tables.filter((it) => it !== undefined).length + count < FILTER_TABLES
  }

  /** The table of this mask, made if need be; one that is to go stays then. @throws NoRoom when there are too many */
  take(mask: Mask): Table {
    const known = this.#open.find((it) => sameMask(it.mask, mask))
    if (known) {
      if (known.leaving) known.returns++
      known.leaving = false
      return known
    }
    const number = Array.from({ length: FILTER_TABLES }, (_, at) => at).find((at) => !this.#tables[at])
    if (number === undefined) throw new NoRoom('the classifier has no more tables')
    const table = newTable(number, keyMask(mask, this.#family))
    const at = TABLE_WORDS * (1 + number)
    Atomics.store(this.#longs, TABLE_LONGS * (1 + number), NOTHING)
    this.#words.set(table.mask.words, at + 2)
    this.#words[at + 10] = portWord(mask)
    this.#words[at + 11] = fieldsWord(mask)
    this.#tables[number] = table
    // Whoever goes through those there were goes on with them.
    this.#open = [...this.#open, table]
    this.#setCount()
    return table
  }

  /** A rule of this rank is about to stand in the table. */
  lower({ number }: Table, image: Image): void {
    const at = TABLE_WORDS * (1 + number)
    const differs = word(image, RANK_HIGH) - word(this.#words, at + 1)
    const isBetter = differs < 0 || (differs === 0 && word(image, RANK_LOW) < word(this.#words, at))
    if (isBetter) Atomics.store(this.#longs, TABLE_LONGS * (1 + number), rank64(image))
  }

  /** Nothing stands in the table any more; its number may be used again once `forget` is called after a grace period. */
  close(table: Table): void {
    this.#open = this.#open.filter((it) => it !== table)
    Atomics.store(this.#longs, TABLE_LONGS * (1 + table.number), NOTHING)
  }

  forget({ number }: Table): void {
    this.#tables[number] = undefined
    this.#setCount()
  }

  /** Packets look at tables up to the last that there is. */
  #setCount(): void {
    Atomics.store(this.#longs, 0, BigInt(this.#tables.findLastIndex((it) => it !== undefined) + 1))
  }

  /** The best rank that a table may hold. */
  #best(number: number): bigint {
    return this.#longs[TABLE_LONGS * (1 + number)] ?? NOTHING
  }

  get #count(): number {
    return Number(this.#longs[0] ?? 0n)
  }

  #read(number: number): KeyMask {
    const at = TABLE_WORDS * (1 + number)
    const words = this.#words.slice(at + 2, at + 10)
    return { ...maskOf(words, this.#words[at + 10] ?? 0, this.#words[at + 11] ?? 0), words }
  }
}

const newTable = (number: number, mask: KeyMask): Table => ({
  number,
  mask,
  leaving: false,
  returns: 0,
  places: 0,
})
