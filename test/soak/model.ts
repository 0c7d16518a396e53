/**
 * What the soak believes the node to hold: rows by collection and by the name that the soak gave them, which stays when
 * a list of changes is played again without some of them.
 */
import { isDeepStrictEqual } from 'node:util'

export type Fields = Readonly<Record<string, unknown>>

export interface Row {
  /** What REST knows it by; undefined while that has not been told. */
  id: string | undefined
  /** What was asked for. */
  fields: Fields
  /** All that the node showed of it when it was last looked at; undefined when it has been changed since. */
  shown?: Fields | undefined
}

/** A row that a change makes or alters (`fields`: those given), or takes away (none). */
export interface Effect {
  of: string
  name: string
  fields?: Fields
  /** Where the client chooses it. */
  id?: string
  /** The row goes on under another id. */
  anew?: true
}

/** A row as the node lists it. */
export interface Listed {
  id: string
  fields: Fields
  /** What contradicts the model beside the fields. */
  wrong?: string
}
export type Listing = ReadonlyMap<string, readonly Listed[]>

export class Model {
  readonly #rows = new Map<string, Map<string, Row>>()

  of(collection: string): ReadonlyMap<string, Row> {
    return this.#collection(collection)
  }

  collections(): Iterable<string> {
    return this.#rows.keys()
  }

  names(collection: string): string[] {
    return [...this.of(collection).keys()]
  }

  has(collection: string, name: unknown): boolean {
    return this.of(collection).has(String(name))
  }

  /** What REST knows it by; for a row that is not there or not yet known an id that nothing has. */
  id(collection: string, name: unknown): string {
    return this.of(collection).get(String(name))?.id ?? '0'
  }

  /** Names of the rows whose fields hold these. */
  where(collection: string, holds: Fields): string[] {
    const all = Object.entries(holds)
    return [...this.of(collection)]
      .filter(([, { fields }]) => all.every(([key, value]) => isDeepStrictEqual(fields[key], value)))
      .map(([name]) => name)
  }

  /** What a row is called that REST knows by this id; the id, where there is none. */
  named(collection: string, id: unknown): string {
    if (id === undefined || id === '') return ''
    return [...this.of(collection)].find(([, row]) => row.id === String(id))?.[0] ?? String(id)
  }

  apply(effects: readonly Effect[]): void {
    for (const { of, name, fields, id, anew } of effects) {
      const rows = this.#collection(of)
      if (fields === undefined) {
        rows.delete(name)
        continue
      }
      const row = rows.get(name)
      rows.set(name, { id: id ?? (anew ? undefined : row?.id), fields: { ...row?.fields, ...fields } })
    }
  }

  learn(collection: string, name: string, id: string): void {
    const row = this.#collection(collection).get(name)
    if (row) row.id = id
  }

  /** Whatever differs from what is listed, in words; the ids of rows whose are not known yet are found by what they hold. */
  differences(listing: Listing): string[] {
    return [...listing].flatMap(([collection, listed]) => this.#differencesOf(collection, listed))
  }

  #differencesOf(collection: string, listed: readonly Listed[]): string[] {
    const out: string[] = []
    const left = new Map(listed.map((one) => [one.id, one]))
    for (const [name, row] of this.#collection(collection)) {
      if (row.id === undefined) row.id = this.#found(collection, row, left)
      const one = left.get(row.id ?? '')
      if (one === undefined) {
        out.push(`${collection} ${name} (${row.id}) is missing: ${JSON.stringify(row.fields)}`)
        continue
      }
      left.delete(one.id)
      if (one.wrong !== undefined) out.push(`${collection} ${name}: ${one.wrong}`)
      const wanted = row.shown ?? row.fields
      const same = row.shown ? isDeepStrictEqual(one.fields, row.shown) : covers(one.fields, row.fields)
      if (!same) {
        out.push(`${collection} ${name} is ${JSON.stringify(one.fields)} instead of ${JSON.stringify(wanted)}`)
      }
    }
    for (const one of left.values()) out.push(`${collection} has more: ${one.id} ${JSON.stringify(one.fields)}`)
    return out
  }

  #found(collection: string, row: Row, among: ReadonlyMap<string, Listed>): string | undefined {
    const known = new Set([...this.#collection(collection).values()].map(({ id }) => id))
    return [...among.values()].find(({ id, fields }) => !known.has(id) && covers(fields, row.fields))?.id
  }

  /** To be called when nothing differs: from now on nothing of a row may change by itself. */
  remember(listing: Listing): void {
    for (const [collection, listed] of listing) {
      const shown = new Map(listed.map(({ id, fields }) => [id, fields]))
      for (const row of this.#collection(collection).values()) row.shown = shown.get(row.id ?? '')
    }
  }

  /** The same rows, to try a change on. */
  copy(): Model {
    const copy = new Model()
    for (const [collection, rows] of this.#rows) {
      for (const [name, row] of rows) copy.#collection(collection).set(name, { ...row })
    }
    return copy
  }

  get size(): number {
    return [...this.#rows.values()].reduce((sum, { size }) => sum + size, 0)
  }

  #collection(name: string): Map<string, Row> {
    const found = this.#rows.get(name)
    if (found) return found
    const made = new Map<string, Row>()
    this.#rows.set(name, made)
    return made
  }
}

/** Whether `fields` holds all of `wanted`, but for what only the soak knows (`_…`). */
const covers = (fields: Fields, wanted: Fields): boolean =>
  Object.entries(wanted).every(([key, value]) => key.startsWith('_') || isDeepStrictEqual(fields[key], value))
