/**
 * Changes of rows → one transaction of etcd, which is carried out if nothing that they were built on is otherwise there. Pure.
 */
import { conflict } from '../../../core/errors.ts'
import { type Collection, goesWith, type Row, type RowChange, type Sent } from '../../../core/replication.ts'
import type { Steps } from '../../../dataplane/slices.ts'
import { MAX_REQUEST_BYTES, MAX_TXN_OPS } from '../etcd/child.ts'
import { absent, allUntil, type Compare, type Op, present, put, remove, removeAll, unchanged } from '../etcd/words.ts'
import { changeKey, childPrefix, parentKey, rowKey, serialKey, uniqueKeys } from '../keys.ts'

/** What stands in the key of a node's last change. */
export interface ChangeRecord {
  rid: string
  node: string
  area: string
  origin: Sent['origin']
}

/** What this node holds. */
export interface Held {
  node: string
  /** Up to which revision it has everything. */
  applied: number
  /** Of the key of a row, of a serial or of this node's last change; 0: it has none. */
  revisionOf(key: string): number
  collections: ReadonlyMap<string, Collection>
}

export interface Transaction {
  compares: Compare[]
  ops: Op[]
  /** Keys whose revision is that of the transaction then; that are gone; below which all are gone. */
  kept: string[]
  gone: string[]
  gonePrefixes: string[]
}

/** What one request takes at most, with some room for what surrounds it. */
const MAX_BYTES = MAX_REQUEST_BYTES - 65_536
/** Beside its key and value, of each part of a request. */
const PART_BYTES = 48

/** In steps, because a deletion may be of thousands of rows. @throws ApiError 409 when it is too much for one transaction */
export function* transactionOf(held: Held, { area, origin, changes }: Sent, rid: string): Steps<Transaction> {
  const [compares, ops]: [Compare[], Op[]] = [[], []]
  const [kept, gone, gonePrefixes]: [string[], string[], string[]] = [[], [], []]
  const made = new Set(changes.flatMap((change) => (change.after ? [rowKey(change.collection, change.after)] : [])))
  const released = new Set<string>()
  const taken = new Map<string, string>()
  const serials = new Set<string>()
  const ending = new Set<string>()

  for (const change of changes) {
    const { collection, before, after } = change
    const key = rowKey(collection, (after ?? before) as Row)
    compares.push(before ? unchanged(key, held.revisionOf(key)) : absent(key))
    if (after) {
      ops.push(put(key, JSON.stringify(after)))
      kept.push(key)
      compares.push(...restsOn(held, change, made))
    } else {
      ops.push(remove(key))
      gone.push(key)
      for (const prefix of goingWith(held.collections, change)) {
        // One that this node does not know yet would stay with nothing to rest on.
        compares.push(allUntil(prefix, held.applied))
        ops.push(removeAll(prefix))
        gonePrefixes.push(prefix)
      }
      if (before) for (const name of collection.named?.(before) ?? []) ending.add(name)
    }
    const [had, has] = [before, after].map((row) => new Set(row ? uniqueKeys(collection, row) : []))
    for (const share of had ?? []) if (!has?.has(share)) released.add(share)
    for (const share of has ?? []) if (!had?.has(share)) taken.set(share, key)
    for (const row of [before, after]) if (row) for (const name of collection.serial?.(row) ?? []) serials.add(name)
    yield
  }
  for (const [share, key] of taken) {
    // Who gives it up here has it: that row is as it was.
    if (!released.delete(share)) compares.push(absent(share))
    ops.push(put(share, key))
  }
  for (const share of released) ops.push(remove(share))
  for (const name of serials) {
    const key = serialKey(name)
    compares.push(unchanged(key, held.revisionOf(key)))
    ops.push(ending.has(name) ? remove(key) : put(key, rid))
    ;(ending.has(name) ? gone : kept).push(key)
  }
  const record: ChangeRecord = { rid, node: held.node, area, origin }
  const own = changeKey(held.node)
  // What this node has given up cannot come into force after this (`outcome.ts`).
  compares.push(unchanged(own, held.revisionOf(own)))
  ops.push(put(own, JSON.stringify(record)))
  kept.push(own)
  yield
  checkSize(compares, ops)
  return { compares, ops, kept, gone, gonePrefixes }
}

/**
 * Rows that must be there; those that the same transaction makes are. They must be the rows that this node has: one that others have
 * deleted and made again takes along what rested on the former.
 */
function restsOn({ collections, revisionOf }: Held, change: RowChange, made: ReadonlySet<string>): Compare[] {
  const { collection, before, after } = change
  const compares: Compare[] = []
  for (const parent of collection.parents ?? []) {
    const key = after && parentKey(after, parent)
    if (key === undefined || made.has(key) || (before && parentKey(before, parent) === key)) continue
    // Of an area that is off this node has what was then, and of a row that it does not know nothing.
    const revision = collections.has(parent.collection) ? revisionOf(key) : 0
    compares.push(revision > 0 ? unchanged(key, revision) : present(key))
  }
  return compares
}

/** How the keys begin of what goes with a row that goes, and with that in turn. */
function goingWith(collections: ReadonlyMap<string, Collection>, { collection, before }: RowChange): string[] {
  const values = collection.key.map((column) => before?.[column] ?? null)
  const names = new Set([collection.name])
  for (const child of collections.values()) {
    for (const parent of child.parents ?? [])
      if (names.has(parent.collection) && goesWith(child, parent)) names.add(child.name)
  }
  names.delete(collection.name)
  return [...names].map((name) => childPrefix(name, values))
}

function checkSize(compares: readonly Compare[], ops: readonly Op[]): void {
  let bytes = (compares.length + ops.length) * PART_BYTES
  for (const { key } of compares) bytes += key.length
  for (const op of ops) {
    if ('request_put' in op) bytes += op.request_put.key.length + op.request_put.value.length
    else bytes += op.request_delete_range.key.length
  }
  if (Math.max(compares.length, ops.length) <= MAX_TXN_OPS && bytes <= MAX_BYTES) return
  throw conflict(
    'TOO_LARGE',
    `the change is too large for one transaction of the cluster (${ops.length} of at most ${MAX_TXN_OPS} keys): make it in parts`,
  )
}
