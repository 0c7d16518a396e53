/**
 * The rows of this node and those of the cluster. What is changed here goes to etcd before it is committed; what others change
 * comes by the watch, in the order of the cluster, one revision after the other and each exactly once: what this node has made itself is
 * known by its revision (`cluster_own`). Changes of this node may come into the store before older ones of others; of each key the newest
 * counts (`order.ts`).
 */
import { createHash, randomUUID } from 'node:crypto'
import type { Change, Db, EventDraft, Ref } from '../../../core/area.ts'
import {
  applyRows,
  type Collection,
  Outrun,
  type Replicator,
  type RowChange,
  type Sent,
} from '../../../core/replication.ts'
import { inSlices, stepwise } from '../../../core/slices.ts'
import { system } from '../../../core/state/events.ts'
import type { EngineContext } from '../engine.ts'
import type { Etcd, WatchEvent } from '../etcd/client.ts'
import { prefixEnd } from '../etcd/words.ts'
import { CHANGE, changeKey, META, ROWS, readRowKey, SERIAL } from '../keys.ts'
import { rethrow, unavailable } from '../membership.ts'
import { forgetKeys, queries } from '../queries.ts'
import { originIn, rowIn } from '../reading.ts'
import * as tables from '../tables.ts'
import { changeOf, importRows, judgeRows, loadRows, readAll, type Snapshot } from './copy.ts'
import { openFollowing } from './following.ts'
import { fateOf, type Held, isOutdated, isTooOld } from './order.ts'
import { carryOut, endDoubt, type Fence } from './outcome.ts'
import { transactionOf } from './transaction.ts'

export interface Replica extends Replicator {
  /** What this node replicates, as a digest: another one than that of the rows it took over last, and it takes them anew. */
  readonly shares: string
  /** For the rule of a conversion: all rows into a new etcd. */
  importInto(tx: Db, etcd: Etcd, self: string): Promise<void>
  /** For the rule that makes a node a member: all rows of the cluster. @throws ApiError 409 */
  load(tx: Db, all: Snapshot, self: string): Promise<Change<number>>
  /** Whether this node could take over the rows that its etcd has so far. @throws ApiError 409 */
  judge(etcd: Etcd): Promise<void>
  /** Follows the cluster from what is stored on. */
  start(etcd: Etcd): void
  stop(): Promise<void>
  /** See `Following.failure`. */
  failure(): unknown
  /** Resolves once this node has everything up to `revision`. @throws ApiError 503 when that takes too long */
  caughtUp(revision: number): Promise<void>
}

export interface ReplicaEvents {
  writable(): boolean
  /** The watch has ended, for one because there is no leader. */
  cutOff(): void
  /** Keys that are no rows, from the cluster or while loading it. */
  told(events: readonly WatchEvent[]): void
  /** All rows were taken over anew; what else is told was missed. */
  reloaded(): void
}

export function openReplica(context: EngineContext, events: ReplicaEvents): Replica {
  const { read, collections } = context
  let etcd: Etcd | undefined
  /** While all rows are taken over anew: until then this node changes none, or it would have to begin again and again. */
  let loading: Promise<number> | undefined
  let stopped = new AbortController()
  let mending: Promise<void> | undefined
  /** When that ended last; performance.now(). */
  let mended = Number.NEGATIVE_INFINITY
  const self = () => queries(read).self.get()?.node ?? ''
  const changed = () => queries(read).revisionOf.get({ key: changeKey(self()) })?.revision ?? 0
  const shares = digestOf(collections)
  const following = openFollowing(context, {
    apply,
    async outOfStep(from) {
      const me = queries(read).self.get()
      if (me?.shares !== shares) return 'this node replicates other tables than before'
      const { revision } = await from.range(META.id, { limit: 1 })
      return revision < me.revision ? 'the cluster has lost what this node had of it' : undefined
    },
    async reload(from) {
      loading = loadAnew(from)
      try {
        return await loading
      } finally {
        loading = undefined
      }
    },
    cutOff: events.cutOff,
    told: events.told,
  })

  async function load(tx: Db, all: Snapshot, node: string): Promise<Change<number>> {
    const loaded = await loadRows(tx, all, collections, node)
    tx.update(tables.self).set({ shares }).run()
    return changeOf(loaded)
  }

  /** Read while others go on; what this node changed in the meantime is of a later time, and then it is read again. */
  async function loadAnew(from: Etcd): Promise<number> {
    for (let before = -1; ; ) {
      const all = await readAll(from, collections)
      const { result } = await context.adopt(system('cluster'), async (tx): Promise<Change<number | undefined>> => {
        const own = queries(tx).ownAfter.get({ revision: all.revision })?.revision
        return isTooOld(all.revision, before, own)
          ? { result: undefined, touch: [], events: [] }
          : load(tx, all, self())
      })
      before = all.revision
      if (result === undefined) continue
      events.reloaded()
      return result
    }
  }

  const inDoubt = (to: Etcd, fence: Fence) => void endDoubt(to, fence, { ...events, changed }, stopped.signal)

  /**
   * etcd refuses a change at a revision up to which this node has everything: what the store has is not what etcd has. Once is enough, as all rows
   * are taken over. @throws ApiError 503
   */
  function mend(): Promise<void> {
    if (mending === undefined && performance.now() - mended < MENDED_MS) throw unavailable(REFUSED)
    mending ??= following.takeAnew().finally(() => {
      mending = undefined
      mended = performance.now()
    })
    return mending
  }

  async function send(tx: Db, change: Sent): Promise<void> {
    const to = etcd
    if (to === undefined) throw unavailable('etcd is not running yet')
    const q = queries(tx)
    const rid = randomUUID()
    const node = self()
    // What the store holds by now, not what the watch has brought meanwhile.
    const { reached: applied, revisionOf } = heldIn(tx)
    const transaction = await stepwise(transactionOf({ node, applied, revisionOf, collections }, change, rid))
    const fence = { node, changed: revisionOf(changeKey(node)) }
    const doubt = () => inDoubt(to, fence)
    const { succeeded, revision } = await carryOut(to, transaction, { rid, ...fence }, { ...events, doubt })
    if (!succeeded) throw new Outrun(revision > following.applied() ? following.caughtUp(revision) : mend())
    q.made.run({ revision })
    await inSlices(transaction.kept, (key) => void q.keep.run({ key, revision }))
    await inSlices(transaction.gone, (key) => void q.forget.run({ key }))
    for (const prefix of transaction.gonePrefixes) await forgetKeys(tx, prefix, prefixEnd(prefix).toString())
  }

  /** The rule of what others have changed, revision by revision. */
  async function apply(tx: Db, revisions: readonly WatchEvent[][]): Promise<Change<void>> {
    const q = queries(tx)
    const [touch, drafts]: [Ref[], EventDraft[]] = [[], []]
    await inSlices(revisions, async (revision) => {
      const at = revision[0]?.revision ?? 0
      const held = heldIn(tx)
      const fate = fateOf(at, held)
      if (fate === 'known') return
      if (fate === 'taken') {
        const { changes, origin } = await taken(tx, revision, held)
        const follow = await applyRows(tx, self(), changes)
        touch.push(...follow.touch)
        drafts.push(...follow.events.map((draft) => (origin ? { ...draft, origin } : draft)))
      }
      q.reached.run({ revision: at })
      q.pass.run({ revision: at })
    })
    return { result: undefined, touch, events: drafts }
  }

  async function taken(tx: Db, revision: readonly WatchEvent[], held: Held) {
    const q = queries(tx)
    const changes: RowChange[] = []
    let origin: Sent['origin'] | undefined
    const own = changeKey(self())
    await inSlices(revision, ({ key, value, revision: at }) => {
      if (key.startsWith(CHANGE)) origin = value === undefined ? undefined : originIn(value)
      if (!key.startsWith(SERIAL) && key !== own && !isKept(key)) return
      if (isOutdated(key, at, held)) return
      if (value === undefined) q.forget.run({ key })
      else q.keep.run({ key, revision: at })
      if (key.startsWith(ROWS)) changes.push(...changeIn(key, value))
    })
    return { changes, origin }
  }

  /** What is of an area that is off is as it was when that was on. */
  const isKept = (key: string) => key.startsWith(ROWS) && collections.has(readRowKey(key).collection)

  function changeIn(key: string, value: string | undefined): RowChange[] {
    const { collection: name, values } = readRowKey(key)
    const collection = collections.get(name)
    if (collection === undefined) return []
    const after = value === undefined ? undefined : rowIn(collection, key, value)
    if (after) return [{ collection, after }]
    // Also where what stands there is no row: no member has any then.
    return [
      { collection, before: Object.fromEntries(collection.key.map((column, at) => [column, values[at] ?? null])) },
    ]
  }

  return {
    get self() {
      return self()
    },
    shares,
    // The store's word, which changes exactly with a commit.
    active: () => (queries(read).self.get()?.mode ?? 'joining') !== 'joining',
    ready() {
      if (etcd === undefined)
        throw unavailable('it does not run on this node, so nothing the members share can be changed')
      if (!events.writable())
        throw unavailable('no majority of the members can be reached, so nothing they share can be changed')
      if (loading) throw new Outrun(loading.then(() => {}, rethrow))
      if (queries(read).self.get()?.shares !== shares)
        throw unavailable('this node has yet to take over all that the members share, as after an upgrade; try again')
    },
    send,
    importInto: (tx, to, node) => importRows(tx, to, collections, node),
    load,
    judge: (from) => judgeRows(read, from, collections, self()),
    start(to) {
      etcd = to
      stopped = new AbortController()
      following.start(to)
      // A change was perhaps under way when the agent ended.
      inDoubt(to, { node: self(), changed: changed() })
    },
    async stop() {
      etcd = undefined
      stopped.abort()
      await following.stop()
    },
    caughtUp: following.caughtUp,
    failure: following.failure,
  }
}

/** For so long after all rows were taken over, what etcd refuses all the same is not for want of rows. */
const MENDED_MS = 60_000
const REFUSED =
  'the members have something else than this node knows, also after it has taken over all that they share; ' +
  'switch on the areas that are off on this node, or try again in a minute'

function heldIn(tx: Db): Held {
  const q = queries(tx)
  return {
    reached: q.self.get()?.revision ?? 0,
    isOwn: (revision) => q.isOwn.get({ revision }) !== undefined,
    revisionOf: (key) => q.revisionOf.get({ key })?.revision ?? 0,
  }
}

/**
 * How a node takes rows over: with another number than before, every member takes all of them anew at its next start. Stores of
 * format 1 may lack rows that the cluster has, and do not know the revision of their node's last change.
 */
const FORMAT = 2

function digestOf(collections: ReadonlyMap<string, Collection>): string {
  const names = Array.from(collections.values(), ({ name, columns }) => [name, ...[...columns].sort()].join()).sort()
  return createHash('sha256')
    .update([FORMAT, ...names].join(';'))
    .digest('hex')
    .slice(0, 16)
}
