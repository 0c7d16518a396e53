/**
 * Rows that all members of a cluster hold. An area declares which of its rows are such (`Area.replicates`); the area that
 * keeps the cluster gives the `Replicator` (`Area.replicator`). A change of such rows is carried out where it is asked for,
 * counts once the cluster has taken it, and is taken over by the others as it is (`AreaContext.adopt`, `applyRows`).
 * Reading and rendering know nothing of it: each member has the rows in its own store.
 */
import type { Db, EventDraft, Ref } from './area.ts'
import type { Config } from './config.ts'
import { notAvailable } from './errors.ts'
import type { Origin } from './state/events.ts'
import type { Store } from './state/store.ts'

export type Value = string | number | null
/** By the names that the columns have in SQL. */
export type Row = Readonly<Record<string, Value>>

/** What a change of rows asks of the rest of an area. Events without `area` are those of the collection's. */
export interface FollowUp {
  touch: Ref[]
  events: EventDraft[]
}

/** The node that took a row over. */
export interface Follower {
  /** What this node is called in the cluster. */
  self: string
  config: Config
}

/** Rows of one table that all members hold. '' and null are no value: what has them is neither unique nor rests on anything. */
export interface Collection {
  /** The table's, and unique over all areas. */
  name: string
  /** Columns that tell a row in the whole cluster; a change of them is another row. */
  key: readonly string[]
  /**
   * What is replicated, the key included. Other columns are the node's own and have a default; so has one that members of an
   * earlier version do not know: what they tell leaves it as it is.
   */
  columns: readonly string[]
  /** SQL over `row.<column>`, of columns that are replicated: which rows are. Absent: all. */
  where?: string
  /** What this node has of it gives way when it enters a cluster; otherwise it may have nothing that the cluster has not. */
  yields?: boolean
  /** What no two rows may share. Not for rows that go with a parent. */
  unique?: readonly (readonly string[])[]
  /**
   * What a row rests on: there must be a row of that collection with these values as its key. Where they are the first
   * columns of the own key, the row goes with the parent: then nothing else tells of that.
   */
  parents?: readonly { collection: string; columns: readonly string[] }[]
  /** Names under which changes exclude each other in the whole cluster, for rules that look at more than one row. */
  serial?(row: Row): readonly string[]
  /** Those of them that are named after the row, and end with it. */
  named?(row: Row): readonly string[]
  /** As all members read it, where they see it otherwise than the node that has it; and back. Never changes the key. */
  outward?(row: Row, self: string): Row
  inward?(row: Row, self: string): Row
  /**
   * What follows on this node from a change that another member made: rows that are derived, refs that may render otherwise,
   * and the events, as this node tells them. All rows of the change are written when it is asked. `before` and `after` have
   * all columns of the table.
   */
  follow?(tx: Db, before: Row | undefined, after: Row | undefined, node: Follower): FollowUp | Promise<FollowUp>
}

/** One row, as all members read it. Of what comes from others, `before` need hold no more than the key. */
export interface RowChange {
  collection: Collection
  before?: Row
  after?: Row
}

/** A change on its way to the cluster. */
export interface Sent {
  area: string
  origin: Origin
  /** Parents come before what rests on them; what goes with a parent is left out. Each row once. */
  changes: readonly RowChange[]
}

export interface Replicator {
  /** What this node is called in the cluster; asked only while it is active. */
  readonly self: string
  /** Whether this node is in a cluster. It may change only while the pipeline stands still (`AreaContext.exclusively`). */
  active(): boolean
  /** Asked before the kernel is. @throws ApiError 503 at once when the cluster takes nothing now; Outrun when it soon will */
  ready(): void
  /**
   * Resolves once the cluster has taken the change; what the replicator keeps of that goes into `tx`, which is committed
   * then. @throws Outrun; ApiError 503 when it was not taken, or when that is not known
   */
  send(tx: Db, change: Sent): Promise<void>
}

/** Another member was first: the rule has to judge anew what it finds once `caughtUp` resolves. */
export class Outrun extends Error {
  override readonly name = 'Outrun'
  readonly caughtUp: Promise<void>

  constructor(caughtUp: Promise<void>) {
    super('another member of the cluster has changed what this change was built on')
    // Whoever does not wait for it must not be killed by it.
    caughtUp.catch(() => {})
    this.caughtUp = caughtUp
  }
}

/** A row as another member had it at a time cannot come into the store, because this node has later rows already. */
export class Outdated extends Error {
  override readonly name = 'Outdated'

  constructor(collection: string, cause: unknown) {
    super(`a row of ${collection} is outdated`, { cause })
  }
}

/** Answers a change that was outrun again and again. */
export const outrunTooOften = () => notAvailable('cluster')

interface Keeper {
  name: string
  replicates?: readonly Collection[]
}

/** Collections by name, each after those that it rests on. @throws Error for two of one name, or a declaration that cannot hold */
export function collectionsOf(areas: Iterable<Keeper>): ReadonlyMap<string, Collection> {
  const declared = new Map<string, Collection>()
  for (const { name: area, replicates = [] } of areas) {
    for (const collection of replicates) {
      if (declared.has(collection.name)) throw new Error(`area ${area}: collection ${collection.name} is there already`)
      checkCollection(area, collection)
      declared.set(collection.name, collection)
    }
  }
  const done = new Map<string, Collection>()
  const visit = (collection: Collection, path: readonly string[]): void => {
    if (done.has(collection.name)) return
    if (path.includes(collection.name)) throw new Error(`collection ${collection.name} rests on itself`)
    for (const { collection: parent } of collection.parents ?? []) {
      // The area that keeps the parents may be off.
      const found = declared.get(parent)
      if (found) visit(found, [...path, collection.name])
    }
    done.set(collection.name, collection)
  }
  for (const collection of declared.values()) visit(collection, [])
  return done
}

/** Whether rows go with a parent: the key of that is how their own begins. */
export const goesWith = ({ key }: Collection, { columns }: { columns: readonly string[] }): boolean =>
  columns.every((column, at) => key[at] === column)

function checkCollection(area: string, { name, key, columns, unique = [], parents = [], ...rest }: Collection): void {
  const named = [...key, ...unique.flat(), ...parents.flatMap((parent) => parent.columns)]
  const unknown = named.find((column) => !columns.includes(column))
  if (unknown !== undefined) throw new Error(`area ${area}: collection ${name} does not replicate ${unknown}`)
  const going = parents.some((parent) => goesWith({ name, key, columns, ...rest }, parent))
  if (going && unique.length > 0)
    throw new Error(`area ${area}: collection ${name} goes with its parent: unique is not for it`)
}

/** How replication stands for a store: rules have nothing but its connections. */
export interface Replication {
  config: Config
  collections: ReadonlyMap<string, Collection>
  /** The area that keeps each collection. */
  keepers: ReadonlyMap<string, string>
  /** Absent where no area keeps a cluster. */
  replicator(): Replicator | undefined
}
const replicationOf = new WeakMap<Db, Replication>()

/** Tells the connections of a store what is replicated, and by whom. */
export function openReplication(
  { write, read }: Pick<Store, 'write' | 'read'>,
  areas: readonly Keeper[],
  rest: Pick<Replication, 'config' | 'replicator'>,
): Replication {
  const collections = collectionsOf(areas)
  const keepers = new Map(
    areas.flatMap(({ name, replicates = [] }) => replicates.map((one) => [one.name, name] as const)),
  )
  const replication = { ...rest, collections, keepers }
  for (const db of [write, read]) replicationOf.set(db, replication)
  return replication
}

/** @throws TypeError for a connection that is not the store's */
export function replicationBehind(db: Db): Replication {
  const found = replicationOf.get(db)
  if (found === undefined) throw new TypeError('replication was not opened for this connection')
  return found
}

/** What this node is called in the cluster that it is in; undefined while it is in none. */
export function selfInCluster(db: Db): string | undefined {
  const replicator = replicationOf.get(db)?.replicator()
  return replicator?.active() ? replicator.self : undefined
}

export { applyRows, rowsOf } from './state/replicate/rows.ts'
