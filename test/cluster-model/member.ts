/**
 * A member of the model: what its store has for good, and what only its process knows. It decides by the functions of the product, and
 * each of its steps is as much as the product does at once.
 */
import type { Row, RowChange } from '../../core/replication.ts'
import { system } from '../../core/state/events.ts'
import { atOnce } from '../../dataplane/slices.ts'
import { CHANGE, changeKey, keysTakenAlong, ROWS, readRowKey, SERIAL } from '../../plugins/cluster/keys.ts'
import * as order from '../../plugins/cluster/replicate/order.ts'
import { type Fence, fenceOf, outcomeOf } from '../../plugins/cluster/replicate/outcome.ts'
import { type Transaction, transactionOf } from '../../plugins/cluster/replicate/transaction.ts'
import type { Answer, Stored, Told } from './etcd.ts'
import { changeOf, collectionOf, collections, type Rows, write } from './rows.ts'

/** What the product decides by; a run may put another rule in its place, to see that the model tells. */
export const RULES = { ...order, fenceOf, keysTakenAlong, outcomeOf, transactionOf }
export type Rules = typeof RULES

/** What stands in SQLite: each step puts a whole new one in its place, or leaves it. */
export interface Store {
  rows: Rows
  revisions: Map<string, number>
  own: Set<number>
  reached: number
}

/** A request to etcd. It lands once or never, also after nobody waits for it any more. */
export interface Flight {
  transaction: Pick<Transaction, 'compares' | 'ops'>
  answer?: Answer
  /** Somebody was told that it will not be carried out. */
  shutOut?: boolean
}

/** An own change: the pipeline is its as long as it lasts. */
export interface Job {
  rid: string
  changes: RowChange[]
  transaction: Transaction
  fence: Fence
  flight: Flight
  /** The question whether it was carried out. */
  asking?: Flight
}

export const emptyStore = (): Store => ({ rows: new Map(), revisions: new Map(), own: new Set(), reached: 0 })

const copyOf = ({ rows, revisions, own, reached }: Store): Store => ({
  rows: new Map(rows),
  revisions: new Map(revisions),
  own: new Set(own),
  reached,
})

const heldIn = ({ reached, own, revisions }: Store): order.Held => ({
  reached,
  isOwn: (revision) => own.has(revision),
  revisionOf: (key) => revisions.get(key) ?? 0,
})

export const changedIn = (store: Store, node: string): number => store.revisions.get(changeKey(node)) ?? 0

/** An own change on what the store holds; undefined: there is nothing to change. */
export function jobOf(rules: Rules, node: string, store: Store, rid: string, random: () => number): Job | undefined {
  const changes = changeOf(store.rows, rid, random)
  if (changes.length === 0) return undefined
  const { reached: applied, revisionOf } = heldIn(store)
  const held = { node, applied, revisionOf, collections }
  const transaction = atOnce(rules.transactionOf(held, { area: 'model', origin: system('model'), changes }, rid))
  return { rid, changes, transaction, fence: { node, changed: changedIn(store, node) }, flight: { transaction } }
}

/** The store once an own change is in force at `revision`. */
export function committed(store: Store, { changes, transaction }: Job, revision: number): Store {
  const next = copyOf(store)
  write(next.rows, changes)
  next.own.add(revision)
  for (const key of transaction.kept) next.revisions.set(key, revision)
  for (const key of transaction.gone) next.revisions.delete(key)
  for (const prefix of transaction.gonePrefixes) {
    for (const key of next.revisions.keys()) if (key.startsWith(prefix)) next.revisions.delete(key)
  }
  return next
}

/** The store once it has taken over what the watch told, revision by revision. @throws Clash */
export function adopted(rules: Rules, node: string, store: Store, revisions: readonly (readonly Told[])[]): Store {
  const next = copyOf(store)
  for (const events of revisions) {
    const held = heldIn(next)
    const at = events[0]?.revision ?? 0
    const fate = rules.fateOf(at, held)
    if (fate === 'known') continue
    if (fate === 'taken') write(next.rows, taken(rules, node, next, events))
    next.reached = at
    for (const revision of next.own) if (revision <= at) next.own.delete(revision)
  }
  return next
}

function taken(rules: Rules, node: string, store: Store, events: readonly Told[]): RowChange[] {
  const changes: RowChange[] = []
  for (const { key, value, revision } of events) {
    if (!key.startsWith(ROWS) && !key.startsWith(SERIAL) && key !== changeKey(node)) continue
    if (rules.isOutdated(key, revision, heldIn(store))) continue
    if (value === undefined) store.revisions.delete(key)
    else store.revisions.set(key, revision)
    if (!key.startsWith(ROWS)) continue
    const collection = collectionOf(key)
    const { values } = readRowKey(key)
    const before = Object.fromEntries(collection.key.map((column, at) => [column, values[at] ?? null]))
    changes.push(value === undefined ? { collection, before } : { collection, after: JSON.parse(value) as Row })
  }
  return changes
}

/** The store with all rows as they were at `revision`; undefined: that is too old. @throws Error for rows that nobody else has had */
export function loaded(
  rules: Rules,
  node: string,
  store: Store,
  found: { revision: number; before: number; keys: ReadonlyMap<string, Stored> },
): Store | undefined {
  const { revision, before, keys } = found
  const beyond = [...store.own].find((own) => own > revision)
  if (rules.isTooOld(revision, before, beyond)) return undefined
  for (const key of store.rows.keys()) {
    if (!keys.has(key) && !store.revisions.has(key)) throw new Error(`${node} has ${key} and no revision of it`)
  }
  const next = emptyStore()
  for (const [key, { value, revision: of }] of keys) {
    if (key.startsWith(ROWS)) next.rows.set(key, JSON.parse(value) as Row)
    if (key.startsWith(ROWS) || key.startsWith(SERIAL) || key === changeKey(node)) next.revisions.set(key, of)
  }
  next.reached = revision
  return next
}

/** What a store has otherwise than etcd, once nothing is on its way. */
export function* differences(node: string, store: Store, keys: ReadonlyMap<string, Stored>): Generator<string> {
  for (const [key, { value, revision }] of keys) {
    if (key.startsWith(ROWS)) {
      const row = store.rows.get(key)
      if (row === undefined) yield `${node} lacks ${key}`
      else if (row.by !== (JSON.parse(value) as Row).by) yield `${node} has another ${key}`
    }
    const isKept = key.startsWith(ROWS) || key.startsWith(SERIAL) || key === changeKey(node)
    if (isKept && store.revisions.get(key) !== revision) yield `${node} has another revision of ${key}`
    if (key.startsWith(CHANGE) && key !== changeKey(node) && store.revisions.has(key)) yield `${node} keeps ${key}`
  }
  for (const key of store.rows.keys()) if (!keys.has(key)) yield `${node} has ${key}, which is gone`
  for (const key of store.revisions.keys()) if (!keys.has(key)) yield `${node} has a revision of ${key}, which is gone`
  if (store.own.size > 0) yield `${node} waits for own revisions that are past`
}
