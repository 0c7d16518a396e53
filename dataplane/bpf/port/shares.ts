/**
 * A map whose rows several entries may ask for: the range of two networks, a MAC bound in two of them, a lock on a port.
 * Knows who asks for what; a row holds what `merge` makes of it and is there as long as somebody asks.
 */
import { inSlices } from '../../slices.ts'
import type { BpfMap } from '../map.ts'

export interface SharedTable<K, V> {
  map: BpfMap<K, V>
  /** What a row holds; `asked` is never empty, and may be long where one row is for all. */
  merge(asked: Iterable<V>): V
  /** Arrays have no absent rows: this value stands for it. */
  absent?: V
}

/** Rows as pairs of key and value. */
export type Rows<K, V> = readonly (readonly [K, V])[]

export interface Findings {
  /** Who asks for rows that are missing or different. */
  wronged: Set<string>
  /** Rows that nobody asks for, and what removes them. */
  strays: { name: string; remove(): void }[]
}

export class Shares<K, V> {
  readonly #table: SharedTable<K, V>
  /** Row → who asks for what. */
  readonly #asked = new Map<string, { key: K; by: Map<string, V> }>()
  /** Who → rows. */
  readonly #rows = new Map<string, Rows<K, V>>()

  constructor(table: SharedTable<K, V>) {
    this.#table = table
  }

  /** What `owner` asks for. */
  of(owner: string): Rows<K, V> {
    return this.#rows.get(owner) ?? []
  }

  /** Notes what `owner` asks for, without a look at the kernel. */
  note(owner: string, rows: Rows<K, V>): void {
    for (const [key] of this.of(owner)) this.#withdraw(owner, key)
    for (const [key, value] of rows) {
      const text = textOf(key)
      const row = this.#asked.get(text) ?? { key, by: new Map<string, V>() }
      row.by.set(owner, value)
      this.#asked.set(text, row)
    }
    if (rows.length === 0) this.#rows.delete(owner)
    else this.#rows.set(owner, rows)
  }

  /**
   * Makes the rows of `owner` these: new ones first, then those that go. Throws what the kernel says (E2BIG: full); what
   * is written until then stands, and calling this with the rows of before takes it back.
   */
  place(owner: string, rows: Rows<K, V>): void {
    const before = this.of(owner)
    this.note(owner, rows)
    for (const [key] of rows) this.#write(key)
    for (const [key] of before) this.#write(key)
  }

  /** Compares the kernel's map with what is asked for. */
  async check(): Promise<Findings> {
    const wronged = new Set<string>()
    const strays: Findings['strays'] = []
    const missing = new Set(this.#asked.keys())
    await inSlices(await this.#table.map.lookupBatch(), ([key, value]) => {
      const text = textOf(key)
      const row = this.#asked.get(text)
      missing.delete(text)
      if (row === undefined) {
        if (!this.#isAbsent(value)) strays.push({ name: text, remove: () => this.#write(key) })
      } else if (textOf(value) !== textOf(this.#merged(row.by))) for (const owner of row.by.keys()) wronged.add(owner)
    })
    for (const text of missing) for (const owner of this.#asked.get(text)?.by.keys() ?? []) wronged.add(owner)
    return { wronged, strays }
  }

  /** Forgets who asks for what, without a look at the kernel. */
  forgetAll(): void {
    this.#asked.clear()
    this.#rows.clear()
  }

  #write(key: K): void {
    const { map, absent } = this.#table
    const row = this.#asked.get(textOf(key))
    if (row !== undefined) map.set(key, this.#merged(row.by))
    else if (absent !== undefined) map.set(key, absent)
    else map.delete(key)
  }

  #merged(by: ReadonlyMap<string, V>): V {
    return this.#table.merge(by.values())
  }

  #withdraw(owner: string, key: K): void {
    const text = textOf(key)
    const row = this.#asked.get(text)
    row?.by.delete(owner)
    if (row?.by.size === 0) this.#asked.delete(text)
  }

  #isAbsent(value: V): boolean {
    return this.#table.absent !== undefined && textOf(value) === textOf(this.#table.absent)
  }
}

/** Keys and values are numbers, texts and flat objects of them, always made with the same fields in the same order. */
const textOf = (value: unknown): string => JSON.stringify(value)
