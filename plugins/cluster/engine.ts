/**
 * The engine of a cluster: turns a node into a member and back, and knows how the cluster stands. SQLite stays what is read; etcd is
 * what members agree by. What this node is (`cluster_self`) changes by mutations whose rule does the work, so that no other change comes
 * between; they touch no replicated row, so they are never made twice.
 */
import { createPublicKey } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { AreaContext } from '../../core/area.ts'
import { badRequest, conflict } from '../../core/errors.ts'
import type { Replicator } from '../../core/replication.ts'
import { fingerprint256, type Own, readShown, type Shown } from './authority.ts'
import { fingerprintOf } from './certificates.ts'
import { NODE_ID } from './etcd/child.ts'
import { type Compare, type KeyValue, type Op, put } from './etcd/words.ts'
import { deafLeader, WITHDRAWN, whyDeaf } from './hearing.ts'
import { META, trustKey } from './keys.ts'
import { openLife } from './life.ts'
import * as membership from './membership.ts'
import { queries } from './queries.ts'
import { noteAdmitted, noteGone } from './roster.ts'
import { knownOf, look, type Standing, standingFrom } from './standing.ts'
import { isTrusted, recordOf as trustRecordOf } from './trusting.ts'

export { ETCD, NODE_ID, whyNoEtcd } from './etcd/child.ts'
export { absent, present, put, remove, unchanged } from './etcd/words.ts'
export type { Peer, Standing } from './standing.ts'

/** What a node needs to enter: whom the members trust, and who they are. */
export interface Admission {
  cluster: string
  /** PEM: the authorities of the members. */
  authorities: string[]
  /** `<node>=<peer URL>,…` */
  initialCluster: string
  /** Of etcd, when the node was admitted. Absent: not known. */
  revision?: number
}

export interface EtcdRecord {
  key: string
  value: string
  /** Of its last change: what `unchanged` compares. */
  revision: number
}

/** Small things that members share besides rows: join codes, for one. Read as this node has them, changed as a majority has them. */
export interface Records {
  /** @throws ApiError 503 when etcd does not answer */
  get(key: string): Promise<EtcdRecord | undefined>
  list(prefix: string): Promise<EtcdRecord[]>
  /** All `ops` if all `compares` hold; false: one does not. @throws ApiError 503, and it may have happened all the same */
  transact(compares: readonly Compare[], ops: readonly Op[]): Promise<boolean>
}

export interface Engine {
  /** For `Area.replicator`. */
  readonly replicator: Replicator
  /** Node id. */
  readonly self: string
  /** undefined: this node is in no cluster. */
  standing(): Standing | undefined
  /** Told when role, leader, members or `writable` may have changed. Returns how to stop that. */
  onChange(listener: () => void): () => void
  /** Takes up what this node was when its agent ended; does not wait for etcd. */
  start(): Promise<void>
  /** Makes a cluster of this node alone, and gives it the replicated rows. Nothing when it is in one. */
  found(): Promise<void>
  /** See membership.ts. @throws ApiError 409 | 503 */
  admit(node: string, address: string): Promise<void>
  /** Admits the node, and has the members trust its authority. @throws ApiError 400 | 409 | 503 */
  certify(node: string, address: string, shown: Shown): Promise<Admission>
  /** Whether a node that was admitted can still come. @throws ApiError 409 */
  mayCome(node: string): Promise<void>
  /**
   * Makes this node a member. Afterwards it has the rows of the cluster. When it fails the node is in no cluster, as before: `withdraw`
   * asks a member to admit it no longer, and resolves to true when it is admitted no longer. If nobody can be asked by then, it goes on entering.
   * `mayCome` asks a member whether it can come at all; a rejection with an ApiError 409 ends the attempt.
   * @throws ApiError 409 when it has replicated rows that the cluster has not, or an area is off that replicates some
   */
  enter(
    admission: Admission,
    own: Own,
    withdraw: () => Promise<unknown>,
    mayCome?: () => Promise<unknown>,
  ): Promise<void>
  /** Removes another member; when none is left, this node is in no cluster any more. @throws ApiError 404 | 409 | 503 */
  expel(node: string): Promise<void>
  /** A member says that this node was removed: it goes on by itself, with all rows as they are. */
  dismissed(): Promise<void>
  /** Leaves, with all rows as they are. */
  quit(): Promise<void>
  /** Goes on without all other members, which are gone for good: the way back from a lost majority. */
  recover(): Promise<void>
  records: Records
  /** PEM; undefined while this node is in no cluster. */
  tls(): { ca: string; certificate: string; key: string } | undefined
  /** See `Trust.learn`. */
  learn(authorities: readonly string[]): Promise<void>
  /** Hands leadership over and ends etcd in order. */
  close(): Promise<void>
}

export interface EngineOptions {
  /** Node id, unless the node is in a cluster by another one already. */
  self: string
  /** By which other members reach this node: a function, because it may be set later. @throws ApiError when it is not */
  address: () => string
  peerPort: number
  clientPort: number
  /** For `etcd/` and `cluster/`. */
  stateDir: string
  /** Path of etcd. */
  program?: string
  /** How often etcd is asked how it stands, in ms. */
  pollMs?: number
  /** Bytes of etcd's database at which it takes no change any more. */
  quota?: number
}

/** What the engine uses of the core. */
export type EngineContext = Pick<
  AreaContext,
  'read' | 'mutate' | 'adopt' | 'exclusively' | 'collections' | 'unreplicated' | 'lockout' | 'log' | 'now'
>

/** For the members to trust a node that comes: each starts its etcd anew, one after the other. */
const TRUST_MS = 30_000
/** An agent that was only busy says by then that it is there. */
const HEARD_MS = 3000
const local = { local: true }
const recordOf = ({ key, value, modRevision }: KeyValue): EtcdRecord => ({ key, value, revision: modRevision })
const { rethrow, unavailable } = membership

export function openEngine(context: EngineContext, options: EngineOptions): Engine {
  const life = openLife(context, options)
  const { watching, identity, etcd, place, next } = life

  function standing(): Standing | undefined {
    const me = identity()
    if (me === undefined || me.mode === 'joining') return undefined
    const rows = () => queries(context.read).members.all()
    return watching.standing() ?? standingFrom(me.node, me.cluster, me.address, rows())
  }

  async function admitKnown(node: string, address: string, shown: ReturnType<typeof readShown>): Promise<Admission> {
    const own = etcd()
    const { members, trust, former } = await look(own).catch(rethrow)
    const early = members.find(({ id, raft }) => !raft.isLearner && !trust.has(id))
    if (early) throw conflict('FORMER_VERSION', `member ${early.id} runs an earlier version: upgrade it first`)
    // The node does not know the authority that all had, and must not.
    if (former !== undefined && members.some(({ id }) => trust.get(id)?.shows === fingerprint256(former)))
      throw unavailable('the upgrade of the members is not finished; try again in a minute')
    const key = fingerprintOf(createPublicKey(shown.publicKey))
    await membership.renew(own, place(), { node, address, key }).catch(rethrow)
    const authorities = members.flatMap(({ id }) => (id === node ? [] : (trust.get(id)?.authority ?? [])))
    const record = trustRecordOf(shown.authority, [...authorities, shown.authority])
    await own.txn([], [put(trustKey(node), JSON.stringify(record))]).catch(rethrow)
    const initialCluster = await membership.initialCluster(own).catch(rethrow)
    const { revision } = await own.range(META.id, { limit: 1 }).catch(rethrow)
    return { cluster: identity()?.cluster ?? '', authorities, initialCluster, revision }
  }

  /** Each member that is there goes by the new authority then; one that takes longer does so while the node enters. */
  async function untilTrusted(node: string): Promise<void> {
    const isTrustedNow = () => {
      const now = watching.standing()
      return now !== undefined && isTrusted(knownOf(now), node, ({ id, online }) => online && id !== node)
    }
    for (const end = performance.now() + TRUST_MS; !isTrustedNow() && performance.now() < end; ) await delay(100)
  }

  /** @throws ApiError 409 when a node of this authority would hear nothing of the cluster */
  async function untilHeard(authority: string): Promise<void> {
    for (const end = performance.now() + HEARD_MS; ; await delay(100)) {
      await watching.look()
      const now = watching.standing()
      const deaf = now && deafLeader(now, authority)
      if (deaf === undefined) return
      if (performance.now() > end) throw conflict('LEADER_AWAY', whyDeaf(deaf))
    }
  }

  /** Waits while etcd is started anew, and asks again when that has begun meanwhile. */
  async function read<T>(ask: () => Promise<T>): Promise<T> {
    await life.anew()
    return ask()
      .catch(async (error: unknown) => {
        const anew = life.anew()
        if (anew === undefined) throw error
        await anew
        return ask()
      })
      .catch(rethrow)
  }

  function mustBeNode(node: string): void {
    if (!NODE_ID.test(node)) throw badRequest('node_id: letters, digits, dots and hyphens, at most 63')
  }

  return {
    get self() {
      return place().self
    },
    replicator: life.replica,
    standing,
    onChange: watching.onChange,
    start: life.start,
    found: life.found,
    async admit(node, address) {
      mustBeNode(node)
      await next(() => membership.admit(etcd(), place(), node, address).catch(rethrow))
      await watching.look()
      await noteAdmitted(context, node, address)
    },
    async certify(node, address, shown) {
      mustBeNode(node)
      const read = readShown(shown)
      await untilHeard(read.authority)
      const admission = await next(async () => admitKnown(node, address, read))
      await watching.look()
      await noteAdmitted(context, node, address)
      await untilTrusted(node)
      return admission
    },
    async mayCome(node) {
      await watching.look()
      const known = watching.standing()?.members.find(({ id }) => id === node)
      if (known === undefined) throw conflict('WITHDRAWN', WITHDRAWN)
      if (known.trust !== undefined) await untilHeard(known.trust.authority)
    },
    enter: life.enter,
    async expel(node) {
      if (node === place().self) throw conflict('IS_SELF', 'a node does not remove itself: have it leave')
      await next(() => membership.expel(etcd(), place(), node))
      await watching.look()
      await noteGone(context, node)
      // If none is left that had come, this node has begun to go on by itself.
      await next(async () => {})
    },
    dismissed: life.dismissed,
    quit: life.quit,
    recover: life.recover,
    records: {
      async get(key) {
        const found = await read(() => etcd().get(key, local))
        return found && recordOf(found)
      },
      list: async (prefix) => (await read(() => etcd().range(prefix, local))).kvs.map(recordOf),
      async transact(compares, ops) {
        await life.anew()
        return (await etcd().txn(compares, ops).catch(rethrow)).succeeded
      },
    },
    learn: life.learn,
    tls: () => (identity() ? life.files.tls() : undefined),
    close: life.close,
  }
}
