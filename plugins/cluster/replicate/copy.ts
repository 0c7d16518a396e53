/** All replicated rows at once: out of a node that founds a cluster, and into one that enters or was away for too long. */
import type { Change, Db, EventDraft, Ref } from '../../../core/area.ts'
import { conflict } from '../../../core/errors.ts'
import { applyRows, type Collection, type Row, type RowChange, rowsOf } from '../../../core/replication.ts'
import { inSlices } from '../../../core/slices.ts'
import type { Etcd } from '../etcd/client.ts'
import { absent, type Op, put } from '../etcd/words.ts'
import { META, ROWS, readRowKey, rowKey, SERIAL, uniqueKeys } from '../keys.ts'
import { forgetAllKeys, queries } from '../queries.ts'

/** Rows of one transaction. */
const BATCH = 100
const IN_FLIGHT = 4
const PAGE = 500
const COPY_MS = 30_000

type Collections = ReadonlyMap<string, Collection>

/**
 * Puts all rows into an etcd that nobody else knows yet. In a mutation, so that none changes meanwhile; until `/meta/imported`
 * is there the etcd counts for nothing.
 */
export async function importRows(tx: Db, etcd: Etcd, collections: Collections, self: string): Promise<void> {
  const q = queries(tx)
  const flying = new Set<Promise<void>>()
  let failed: unknown
  const send = async (keys: readonly string[], ops: readonly Op[]) => {
    const { succeeded, revision } = await etcd.txn([absent(META.imported)], ops, COPY_MS)
    if (!succeeded) throw new Error('the new etcd holds rows already')
    await inSlices(keys, (key) => void q.keep.run({ key, revision }))
  }
  let [keys, ops]: [string[], Op[]] = [[], []]
  const flush = async () => {
    const flight = send(keys, ops).catch((error: unknown) => {
      failed ??= error
    })
    ;[keys, ops] = [[], []]
    flying.add(flight)
    void flight.then(() => flying.delete(flight))
    if (flying.size >= IN_FLIGHT) await Promise.race(flying)
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
  await Promise.all(flying)
  if (failed) throw failed
}

/** What a rule that takes all rows over answers, and up to which revision it has them. */
export interface Loaded {
  revision: number
  touch: Ref[]
  events: EventDraft[]
}

/**
 * Makes the rows of this node those of the cluster, at one revision. `strict`: for a node that enters; then it may have no
 * row that the cluster has not. @throws ApiError 409 when it does
 */
export async function loadRows(
  tx: Db,
  etcd: Etcd,
  collections: Collections,
  self: string,
  strict: boolean,
): Promise<Loaded> {
  const { found, serials, revision } = await everything(etcd)
  const changes: RowChange[] = []
  const standing = new Set<string>()
  for (const collection of collections.values()) {
    await inSlices(rowsOf(tx, collection, self), (row) => {
      const key = rowKey(collection, row)
      const told = found.get(key)
      const same = told && collection.columns.every((column) => (told.row[column] ?? null) === (row[column] ?? null))
      if (same) return void standing.add(key)
      if (strict) throw ownRows(collection, key)
      if (told === undefined) changes.push({ collection, before: row })
    })
  }
  const q = queries(tx)
  await forgetAllKeys(tx)
  await inSlices(found, ([key, told]) => {
    q.keep.run({ key, revision: told.revision })
    const collection = collections.get(readRowKey(key).collection)
    if (collection && !standing.has(key)) changes.push({ collection, after: told.row })
  })
  await inSlices(serials, ([key, of]) => void q.keep.run({ key, revision: of }))
  const { touch, events } = await applyRows(tx, self, changes)
  q.pass.run({ revision })
  q.reached.run({ revision })
  return { revision, touch, events }
}

/** For a mutation whose result is the revision. */
export const changeOf = ({ revision, touch, events }: Loaded): Change<number> => ({ result: revision, touch, events })

const ownRows = ({ name }: Collection, key: string) =>
  conflict(
    'OWN_ROWS',
    `this node has rows of its own that the cluster has not (${name}, ${key.slice(ROWS.length)}): delete them before it joins`,
  )

interface Everything {
  found: Map<string, { row: Row; revision: number }>
  serials: Map<string, number>
  revision: number
}

/** Page by page at one revision, that of the first page. */
async function everything(etcd: Etcd): Promise<Everything> {
  const found: Everything['found'] = new Map()
  const serials: Everything['serials'] = new Map()
  const first = await etcd.range(ROWS, { limit: 1, ms: COPY_MS })
  const at = { revision: first.revision, limit: PAGE, ms: COPY_MS }
  for (const prefix of [ROWS, SERIAL]) {
    for (let from = prefix; ; ) {
      const { kvs, more } = await etcd.range(prefix, { ...at, from })
      await inSlices(kvs, ({ key, value, modRevision }) => {
        if (prefix === ROWS) found.set(key, { row: JSON.parse(value), revision: modRevision })
        else serials.set(key, modRevision)
      })
      const last = kvs.at(-1)
      if (!more || last === undefined) break
      from = `${last.key}\0`
    }
  }
  return { found, serials, revision: first.revision }
}
