/**
 * Agents in this process that hold the same rows through a model of the cluster's store: one order of changes, each taken
 * only if what it was built on still stands. `const mates = await openMates(t, ['n1', 'n2'], { only })`.
 */
import { type AreaContext, type AreaPlugin, defineArea } from '../core/area.ts'
import { ApiError } from '../core/errors.ts'
import {
  applyRows,
  type Collection,
  goesWith,
  Outdated,
  Outrun,
  type Replicator,
  type Row,
  type RowChange,
  rowsOf,
} from '../core/replication.ts'
import type { Origin } from '../core/state/events.ts'
import { type BuildAgentOptions, type BuiltAgent, buildAgent } from './build.ts'
import type { Scope } from './netns.ts'

export interface Mate extends BuiltAgent {
  name: string
  /** Whether it is in the cluster. */
  active: boolean
  /** What the cluster does with its next change; it takes it if there is none. */
  next: ('outrun' | 'lost' | 'unavailable')[]
  /** How often another member was first. */
  outrun: number
  /** How often it took all rows over anew. */
  reloads: number
  /** Its changes that were sent so far, taken or not. */
  sent: (readonly RowChange[])[]
  /** Takes over rows as others have changed them; the n-th event is caused by the n-th of `origins`. */
  adopt(
    collection: string,
    changes: readonly Omit<RowChange, 'collection'>[],
    origins: readonly Origin[],
  ): Promise<void>
  /** Takes over what others have changed, as far as the first `many` changes. */
  pump(many?: number): Promise<void>
  /** Its rows of a collection, as all members read them. */
  rows(collection: string): Row[]
}

export interface Mates {
  mates: readonly [Mate, Mate, ...Mate[]]
  /** What the cluster holds of a collection, in the order of the keys. */
  held(collection: string): Row[]
  /** How many changes it has taken. */
  revision(): number
  collections: ReadonlyMap<string, Collection>
}

interface Change {
  collection: string
  before?: Row
  after?: Row
}
interface Revision {
  /** Who knows it already. */
  by: string
  origin: Origin
  changes: readonly Change[]
}
interface Kept {
  collection: Collection
  row: Row
}

export async function openMates(t: Scope, names: readonly string[], options: BuildAgentOptions): Promise<Mates> {
  const log: Revision[] = []
  const rows = new Map<string, Kept>()
  /** Revision by key: of a row, of what is shared by nobody, of a name under which changes exclude each other. */
  const changed = new Map<string, number>()
  const values = (row: Row, columns: readonly string[]) => columns.map((column) => row[column] ?? null)
  const keyOf = ({ name, key }: Collection, row: Row) => `row ${name} ${JSON.stringify(values(row, key))}`
  const claims = ({ name, unique = [] }: Collection, row: Row | undefined): string[] =>
    unique.flatMap((columns, at) => {
      const all = row ? values(row, columns) : ['']
      return all.some((value) => value === '' || value === null) ? [] : [`unique ${name} ${at} ${JSON.stringify(all)}`]
    })
  const taken = new Set<string>()

  /** Whether everything is as the one that changes it believes, who knows the first `known` revisions. */
  function stands(changes: readonly RowChange[], known: (key: string) => number): boolean {
    const gone = new Set(changes.flatMap(({ collection, before }) => claims(collection, before)))
    const made = new Set(changes.flatMap(({ collection, after }) => (after ? [keyOf(collection, after)] : [])))
    return changes.every(({ collection, before, after }) => {
      const row = after ?? before ?? {}
      const key = keyOf(collection, row)
      if (rows.has(key) !== (before !== undefined) || (before && changed.get(key) !== known(key))) return false
      const serials = [before, after].flatMap((one) => (one && collection.serial?.(one)) || [])
      if (serials.some((name) => (changed.get(`serial ${name}`) ?? 0) !== known(`serial ${name}`))) return false
      if (after === undefined) return true
      if (claims(collection, after).some((claim) => taken.has(claim) && !gone.has(claim))) return false
      return (collection.parents ?? []).every(({ collection: parent, columns }) => {
        const needed = `row ${parent} ${JSON.stringify(values(after, columns))}`
        return (
          values(after, columns).some((value) => value === '') ||
          made.has(needed) ||
          (rows.has(needed) && changed.get(needed) === known(needed))
        )
      })
    })
  }

  function take(by: string, origin: Origin, changes: readonly RowChange[]): string[] {
    const revision = log.length + 1
    const keys = new Set<string>()
    const told: Change[] = changes.map(({ collection, ...rest }) => ({ collection: collection.name, ...rest }))
    for (const { collection, before } of changes) for (const claim of claims(collection, before)) taken.delete(claim)
    for (const { collection, before, after } of changes) {
      const key = keyOf(collection, after ?? before ?? {})
      keys.add(key)
      for (const one of [before, after])
        for (const name of (one && collection.serial?.(one)) || []) keys.add(`serial ${name}`)
      if (after) rows.set(key, { collection, row: after })
      else {
        rows.delete(key)
        for (const child of withParent(collection, before ?? {})) {
          const { collection: of, row } = rows.get(child) as Kept
          told.push({ collection: of.name, before: row })
          rows.delete(child)
          keys.add(child)
        }
      }
      for (const claim of claims(collection, after)) taken.add(claim)
    }
    for (const key of keys) changed.set(key, revision)
    log.push({ by, origin, changes: told })
    return [...keys]
  }

  const withParent = (of: Collection, row: Row): string[] =>
    [...rows].flatMap(([key, kept]) => {
      const parents = (kept.collection.parents ?? []).filter((one) => one.collection === of.name)
      const gone = parents.some(
        (one) =>
          goesWith(kept.collection, one) &&
          JSON.stringify(values(kept.row, one.columns)) === JSON.stringify(values(row, of.key)),
      )
      return gone ? [key] : []
    })

  async function join(name: string): Promise<Mate> {
    /** Of its own changes, by key: their revisions. */
    const own = new Map<string, number>()
    let context: AreaContext | undefined
    let applied = 0
    const known = (key: string) => Math.max(own.get(key) ?? 0, sofar(key, applied))
    const sofar = (key: string, upTo: number) => history(key).findLast((revision) => revision <= upTo) ?? 0
    const replicator: Replicator = {
      self: name,
      active: () => mate.active,
      ready() {
        if (mate.next[0] === 'unavailable') {
          mate.next.shift()
          throw new ApiError(503, 'NOT_AVAILABLE', 'cluster service not available')
        }
      },
      async send(_tx, { origin, changes }) {
        mate.sent.push(changes)
        const fate = mate.next.shift()
        const first = stands(changes, known)
        if (!first) mate.outrun++
        if (fate === 'outrun' || !first) throw new Outrun(mate.pump())
        const keys = take(fate === 'lost' ? '' : name, origin, changes)
        for (const key of keys) noted.set(key, [...history(key), log.length])
        if (fate === 'lost') throw new ApiError(503, 'NOT_AVAILABLE', 'cluster service not available')
        for (const key of keys) own.set(key, log.length)
      },
    }
    const area: AreaPlugin = defineArea(import.meta.url, {
      name: 'mates',
      prefixes: ['/mates'],
      routes() {},
      replicator(given) {
        context = given
        collections = given.collections
        return replicator
      },
    })
    const built = await buildAgent(t, { ...options, extraAreas: [area] })
    let pumping: Promise<void> = Promise.resolve()
    const mate: Mate = {
      ...built,
      name,
      active: true,
      next: [],
      outrun: 0,
      reloads: 0,
      sent: [],
      async adopt(collection, changes, origins) {
        await context?.adopt({ actor: { kind: 'system', label: 'mates' }, requestId: '' }, async (tx) => {
          const theirs = changes.map((change) => ({ ...change, collection: find(collection) }))
          const { touch, events } = await applyRows(tx, name, theirs)
          const caused = events.map((event, at) => ({ ...event, ...(origins[at] && { origin: origins[at] }) }))
          return { result: undefined, touch, events: caused }
        })
      },
      pump(many = Number.POSITIVE_INFINITY) {
        const upTo = Math.min(log.length, applied + many)
        pumping = pumping.then(async () => {
          while (applied < upTo) {
            const revision = log[applied]
            try {
              if (revision && revision.by !== name) await adopt(revision)
              applied++
            } catch (error) {
              if (!(error instanceof Outdated)) throw error
              await reload()
            }
          }
        })
        return pumping
      },
      rows: (collection) => [...rowsOf(built.agent.store.read, find(collection), name)],
    }
    const find = (collection: string): Collection => {
      const found = context?.collections.get(collection)
      if (found === undefined) throw new Error(`no collection ${collection}`)
      return found
    }
    async function adopt({ origin, changes }: Revision): Promise<void> {
      const number = applied + 1
      await context?.adopt(origin, async (tx) => {
        // What it has changed itself since is newer.
        const fresh = changes.filter(({ collection, before, after }) => {
          const key = keyOf(find(collection), after ?? before ?? {})
          return (own.get(key) ?? 0) < number
        })
        const theirs = fresh.map(({ collection, ...rest }) => ({ collection: find(collection), ...rest }))
        return { result: undefined, ...(await applyRows(tx, name, theirs)) }
      })
    }
    /** All as the cluster has it now. No change of this member may be on its way meanwhile. */
    async function reload(): Promise<void> {
      await context?.adopt({ actor: { kind: 'system', label: 'mates' }, requestId: '' }, async (tx) => {
        const changes: RowChange[] = [...rows.values()].map(({ collection, row }) => ({ collection, after: row }))
        for (const collection of collections.values()) {
          for (const before of rowsOf(tx, collection, name))
            if (!rows.has(keyOf(collection, before))) changes.push({ collection, before })
        }
        applied = log.length
        mate.reloads++
        return { result: undefined, ...(await applyRows(tx, name, changes)) }
      })
    }
    return mate
  }

  /** Revisions that changed a key, ascending. */
  const noted = new Map<string, number[]>()
  const history = (key: string): readonly number[] => noted.get(key) ?? []
  let collections: ReadonlyMap<string, Collection> = new Map()
  const mates: Mate[] = []
  for (const name of names) mates.push(await join(name))
  const [one, two, ...more] = mates
  if (one === undefined || two === undefined) throw new TypeError('one alone has no mates')
  return {
    mates: [one, two, ...more],
    collections,
    revision: () => log.length,
    held(name) {
      const collection = collections.get(name)
      const all = [...rows.values()].filter((kept) => kept.collection.name === name).map(({ row }) => row)
      const order = (row: Row) => values(row, collection?.key ?? [])
      return all.sort((a, b) => compare(order(a), order(b)))
    },
  }
}

/** As SQLite orders: numbers by value, text by its bytes. */
function compare(a: readonly unknown[], b: readonly unknown[]): number {
  for (const [at, left] of a.entries()) {
    const right = b[at]
    if (left === right) continue
    if (typeof left === 'number' && typeof right === 'number') return left - right
    return String(left) < String(right) ? -1 : 1
  }
  return 0
}
