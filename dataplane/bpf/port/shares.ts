/**
 * A map whose rows several entries may ask for: the range of two networks, a MAC bound in two of them, a lock on a port.
 * Knows who asks for what; a row holds what `merge` makes of it and is there as long as somebody asks.
 */
import { KernelError } from '../../libc.ts'
import { inSlices } from '../../slices.ts'
import type { BpfMap } from '../map.ts'

export interface SharedTable<K, V> {
  map: BpfMap<K, V>
  /** What a row holds; `asked` is never empty, and may be long where one row is for all. */
  merge(asked: Iterable<V>): V
  /** Arrays have no absent rows: this value stands for it. */
  absent?: V
  /** A row for which there is no room is left out: nobody is refused anything for its sake. */
  spare?: true
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
  /** By {@link idOf} of the row. */
  readonly #asked = new Map<unknown, Asked<K, V>>()
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
      const id = idOf(key)
      const row = this.#asked.get(id)
      if (row === undefined) this.#asked.set(id, new Asked(key, owner, value))
      else row.put(owner, value)
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
      const id = idOf(key)
      const row = this.#asked.get(id)
      missing.delete(id)
      if (row === undefined) {
        if (!this.#isAbsent(value)) strays.push({ name: textOf(key), remove: () => this.#write(key) })
      } else if (!isSame(value, this.#merged(row))) for (const owner of row.owners()) wronged.add(owner)
    })
    for (const id of missing) for (const owner of this.#asked.get(id)?.owners() ?? []) wronged.add(owner)
    return { wronged, strays }
  }

  /** Forgets who asks for what, without a look at the kernel. */
  forgetAll(): void {
    this.#asked.clear()
    this.#rows.clear()
  }

  #write(key: K): void {
    const { map, absent } = this.#table
    const row = this.#asked.get(idOf(key))
    if (row !== undefined) this.#set(key, this.#merged(row))
    else if (absent !== undefined) map.set(key, absent)
    else map.delete(key)
  }

  #set(key: K, value: V): void {
    try {
      this.#table.map.set(key, value)
    } catch (error) {
      if (!(this.#table.spare && error instanceof KernelError && error.code === 'E2BIG')) throw error
    }
  }

  #merged(row: Asked<K, V>): V {
    return this.#table.merge(row.values())
  }

  #withdraw(owner: string, key: K): void {
    const id = idOf(key)
    if (this.#asked.get(id)?.withdraw(owner) === 'nobody') this.#asked.delete(id)
  }

  #isAbsent(value: V): boolean {
    return this.#table.absent !== undefined && isSame(value, this.#table.absent)
  }
}

/** Who asks for a row, and for what. Most rows have one who does, so that a map for each would be most of the memory. */
class Asked<K, V> {
  readonly key: K
  #owner: string
  #value: V
  #others: Map<string, V> | undefined

  constructor(key: K, owner: string, value: V) {
    this.key = key
    this.#owner = owner
    this.#value = value
  }

  put(owner: string, value: V): void {
    if (owner === this.#owner) {
      this.#value = value
      return
    }
    this.#others ??= new Map()
    this.#others.set(owner, value)
  }

  /** Tells whether anybody is left. */
  withdraw(owner: string): 'nobody' | 'somebody' {
    if (owner !== this.#owner) {
      this.#others?.delete(owner)
      return 'somebody'
    }
    const [next] = this.#others ?? []
    if (next === undefined) return 'nobody'
    ;[this.#owner, this.#value] = next
    this.#others?.delete(this.#owner)
    return 'somebody'
  }

  *owners(): Generator<string> {
    yield this.#owner
    if (this.#others !== undefined) yield* this.#others.keys()
  }

  *values(): Generator<V> {
    yield this.#value
    if (this.#others !== undefined) yield* this.#others.values()
  }
}

/** By which a row is found. */
const idOf = (key: unknown): unknown => (typeof key === 'object' ? textOf(key) : key)

const isSame = (one: unknown, other: unknown): boolean =>
  typeof one === 'object' ? textOf(one) === textOf(other) : one === other

/** Keys and values are numbers, texts and flat objects of them, always made with the same fields in the same order. */
const textOf = (value: unknown): string => JSON.stringify(value)
