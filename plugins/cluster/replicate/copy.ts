/** All replicated rows at once: out of a node that founds a cluster, and into one that enters or was away for too long. */
import type { Change, Db, EventDraft, Ref } from '../../../core/area.ts'
import { conflict } from '../../../core/errors.ts'
import { applyRows, type Collection, type Row, type RowChange, rowsOf } from '../../../core/replication.ts'
import { inSlices } from '../../../core/slices.ts'
import type { Etcd } from '../etcd/client.ts'
import { type Op, prefixEnd, put, remove, removeAll } from '../etcd/words.ts'
import { CHANGE, changeKey, encode, META, ROWS, readRowKey, rowKey, SERIAL, UNIQUE, uniqueKeys } from '../keys.ts'
import { forgetAllKeys, forgetKeys, queries } from '../queries.ts'
import { rowIn } from '../reading.ts'
import { own } from '../tables.ts'

/** Rows of one transaction. */
const BATCH = 100
const IN_FLIGHT = 4
const PAGE = 500
const COPY_MS = 30_000

type Collections = ReadonlyMap<string, Collection>

/**
 * Puts all rows into an etcd that nobody else knows, instead of those that it holds. In a mutation, so that none changes meanwhile, which
 * may be made anew; until `/meta/imported` is there the etcd counts for nothing.
 */
export async function importRows(tx: Db, etcd: Etcd, collections: Collections, self: string): Promise<void> {
  const q = queries(tx)
  const flying = new Set<Promise<void>>()
  await etcd.txn([], [remove(META.imported), ...[ROWS, UNIQUE, SERIAL, CHANGE].map(removeAll)], COPY_MS)
  tx.delete(own).run()
  await forgetAllKeys(tx)
  let failed: unknown
  const send = async (keys: readonly string[], ops: readonly Op[]) => {
    const { revision } = await etcd.txn([], ops, COPY_MS)
    // Of a mutation that is given up nothing may be written any more.
    if (failed) return
    await inSlices(keys, (key) => void q.keep.run({ key, revision }))
  }
  // Nothing that members have given up, this one or those that were, comes into force after this.
  await send([changeKey(self)], [put(changeKey(self), JSON.stringify({ node: self }))])
  let [keys, ops]: [string[], Op[]] = [[], []]
  const flush = async () => {
    const flight = send(keys, ops).catch((error: unknown) => {
      failed ??= error
    })
    ;[keys, ops] = [[], []]
    flying.add(flight)
    void flight.then(() => flying.delete(flight))
    if (flying.size >= IN_FLIGHT) await Promise.race(flying)
    if (failed) await landed()
  }
  const landed = async () => {
    await Promise.all(flying)
    if (failed) throw failed
  }
  for (const collection of collections.values()) {
    await inSlices(rowsOf(tx, collection, self), (row) => {
      const key = rowKey(collection, row)
      keys.push(key)
      ops.push(put(key, JSON.stringify(row)), ...uniqueKeys(collection, row).map((share) => put(share, key)))
      return keys.length >= BATCH ? flush() : undefined
    })
  }
  if (keys.length > 0) await flush()
  await landed()
}

/** What a rule that takes all rows over answers, and up to which revision it has them. */
export interface Loaded {
  revision: number
  touch: Ref[]
  events: EventDraft[]
}

/**
 * Makes the rows of this node those of the cluster, at one revision. It may have none that the cluster neither has nor had.
 * @throws ApiError 409 when it does
 */
export async function loadRows(
  tx: Db,
  { found, marks, revision }: Snapshot,
  collections: Collections,
  self: string,
): Promise<Loaded> {
  const { changes, standing } = await differences(tx, found, collections, self)
  const q = queries(tx)
  // What is of an area that is off stays as it was then: by that its rows are known when it is on again.
  for (const prefix of [SERIAL, CHANGE, ...Array.from(collections.keys(), rowsBelow)]) {
    await forgetKeys(tx, prefix, prefixEnd(prefix).toString())
  }
  await inSlices(found, ([key, told]) => {
    const collection = collections.get(readRowKey(key).collection)
    if (collection === undefined) return
    q.keep.run({ key, revision: told.revision })
    if (!standing.has(key)) changes.push({ collection, after: told.row })
  })
  const change = changeKey(self)
  await inSlices(
    marks,
    ([key, of]) => void ((key.startsWith(SERIAL) || key === change) && q.keep.run({ key, revision: of })),
  )
  const { touch, events } = await applyRows(tx, self, changes)
  // An etcd that has lost revisions gives their numbers to others.
  if (revision < (q.self.get()?.revision ?? 0) || q.ownAfter.get({ revision })) tx.delete(own).run()
  q.pass.run({ revision })
  q.reached.run({ revision })
  return { revision, touch, events }
}

/** While this node does not vote: whether it could take the rows over, as far as its etcd has them. @throws ApiError 409 */
export async function judgeRows(db: Db, etcd: Etcd, collections: Collections, self: string): Promise<void> {
  await differences(db, (await readAll(etcd, collections, true)).found, collections, self)
}

const rowsBelow = (collection: string) => `${ROWS}${encode(collection)}/`

/** Rows that are to go, and the keys of those that are as they shall be. @throws ApiError 409 */
async function differences(db: Db, found: Snapshot['found'], collections: Collections, self: string) {
  const changes: RowChange[] = []
  const standing = new Set<string>()
  const q = queries(db)
  for (const collection of collections.values()) {
    await inSlices(rowsOf(db, collection, self), (row) => {
      const key = rowKey(collection, row)
      const told = found.get(key)
      const same =
        told && collection.columns.every((column) => !(column in told.row) || told.row[column] === row[column])
      if (same) return void standing.add(key)
      if (collection.yields) return
      if (q.revisionOf.get({ key }) === undefined) throw ownRows(collection, key)
      if (told === undefined) changes.push({ collection, before: row })
    })
  }
  return { changes, standing }
}

/** For a mutation whose result is the revision. */
export const changeOf = ({ revision, touch, events }: Loaded): Change<number> => ({ result: revision, touch, events })

const ownRows = ({ name }: Collection, key: string) =>
  conflict(
    'OWN_ROWS',
    `this node has rows of its own that the cluster has not (${name}, ${key.slice(ROWS.length)}): delete them before it joins`,
  )

/** All rows of what this node replicates, and the revisions of serials and of each node's last change, at one revision. */
export interface Snapshot {
  found: Map<string, { row: Row; revision: number }>
  marks: Map<string, number>
  revision: number
}

/** Page by page at one revision, that of the first page. Not for a mutation: the others would wait for etcd. */
export async function readAll(etcd: Etcd, collections: Collections, local = false): Promise<Snapshot> {
  const found: Snapshot['found'] = new Map()
  const marks: Snapshot['marks'] = new Map()
  const first = await etcd.range(ROWS, { limit: 1, ms: COPY_MS, local })
  const at = { revision: first.revision, limit: PAGE, ms: COPY_MS, local }
  for (const prefix of [ROWS, SERIAL, CHANGE]) {
    for (let from = prefix; ; ) {
      const { kvs, more } = await etcd.range(prefix, { ...at, from })
      await inSlices(kvs, ({ key, value, modRevision }) => {
        if (prefix !== ROWS) return void marks.set(key, modRevision)
        const collection = collections.get(readRowKey(key).collection)
        const row = collection && rowIn(collection, key, value)
        if (row) found.set(key, { row, revision: modRevision })
      })
      const last = kvs.at(-1)
      if (!more || last === undefined) break
      from = `${last.key}\0`
    }
  }
  return { found, marks, revision: first.revision }
}
