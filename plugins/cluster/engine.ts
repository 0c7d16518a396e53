/**
 * The engine of a cluster: turns a node into a member and back, and knows how the cluster stands. SQLite stays what is read; etcd is
 * what members agree by. What this node is (`cluster_self`) changes by mutations whose rule does the work, so that no other change comes
 * between; they touch no replicated row, so they are never made twice.
 */
import { createPublicKey } from 'node:crypto'
import type { AreaContext } from '../../core/area.ts'
import { badRequest, conflict } from '../../core/errors.ts'
import type { Replicator } from '../../core/replication.ts'
import { authorityIn } from './authority.ts'
import { certify, fingerprintOf } from './certificates.ts'
import { NODE_ID } from './etcd/child.ts'
import type { Compare, KeyValue, Op } from './etcd/words.ts'
import { META } from './keys.ts'
import { openLife } from './life.ts'
import * as membership from './membership.ts'
import { queries } from './queries.ts'
import { type Standing, standingFrom } from './standing.ts'

export { ETCD, NODE_ID, whyNoEtcd } from './etcd/child.ts'
export { absent, present, put, remove, unchanged } from './etcd/words.ts'
export type { Peer, Standing } from './standing.ts'

/** What a node needs to enter: the certificate of the cluster's authority and its own, PEM, and who the members are. */
export interface Admission {
  cluster: string
  ca: string
  certificate: string
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
  /** Admits the node and signs its key. @throws ApiError 400 | 409 | 503 */
  certify(node: string, address: string, publicKeyPem: string): Promise<Admission>
  /**
   * Makes this node a member. Afterwards it has the rows of the cluster. When it fails the node is in no cluster, as before: `withdraw`
   * asks a member to admit it no longer. If nobody can be asked by then, it goes on entering.
   * @throws ApiError 409 when it has replicated rows that the cluster has not, or an area is off that replicates some
   */
  enter(admission: Admission, keyPem: string, withdraw: () => Promise<void>): Promise<void>
  /** Removes another member; when none is left, this node is in no cluster any more. @throws ApiError 404 | 409 | 503 */
  expel(node: string): Promise<void>
  /** Leaves, with all rows as they are. */
  quit(): Promise<void>
  /** Goes on without all other members, which are gone for good: the way back from a lost majority. */
  recover(): Promise<void>
  records: Records
  /** PEM; undefined while this node is in no cluster. */
  tls(): { ca: string; certificate: string; key: string } | undefined
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
  'read' | 'mutate' | 'adopt' | 'collections' | 'unreplicated' | 'lockout' | 'log' | 'now'
>

const local = { local: true }
const recordOf = ({ key, value, modRevision }: KeyValue): EtcdRecord => ({ key, value, revision: modRevision })
const { rethrow } = membership

export function openEngine(context: EngineContext, options: EngineOptions): Engine {
  const life = openLife(context, options)
  const { watching, identity, etcd, place, next } = life

  function standing(): Standing | undefined {
    const me = identity()
    if (me === undefined || me.mode === 'joining') return undefined
    const rows = () => queries(context.read).members.all()
    return watching.standing() ?? standingFrom(me.node, me.cluster, me.address, rows())
  }

  async function admitAndSign(node: string, address: string, publicKey: string): Promise<Admission> {
    const own = etcd()
    const authority = await authorityIn(own).catch(rethrow)
    // First: a key of another kind admits nobody.
    const certificate = await certify(authority, { node, address, publicKey }, context.now())
    const key = fingerprintOf(createPublicKey(publicKey))
    await membership.renew(own, place(), { node, address, key }).catch(rethrow)
    const initialCluster = await membership.initialCluster(own).catch(rethrow)
    const { revision } = await own.range(META.id, { limit: 1 }).catch(rethrow)
    return { cluster: identity()?.cluster ?? '', ca: authority.certificate, certificate, initialCluster, revision }
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
    },
    async certify(node, address, publicKey) {
      mustBeNode(node)
      return next(() => admitAndSign(node, address, publicKey))
    },
    enter: life.enter,
    async expel(node) {
      if (node === place().self) throw conflict('IS_SELF', 'a node does not remove itself: have it leave')
      await next(() => membership.expel(etcd(), place(), node))
      await watching.look()
      // If none is left that had come, this node has begun to go on by itself.
      await next(async () => {})
    },
    quit: life.quit,
    recover: life.recover,
    records: {
      async get(key) {
        const found = await etcd().get(key, local).catch(rethrow)
        return found && recordOf(found)
      },
      list: async (prefix) => (await etcd().range(prefix, local).catch(rethrow)).kvs.map(recordOf),
      transact: async (compares, ops) => (await etcd().txn(compares, ops).catch(rethrow)).succeeded,
    },
    tls: () => (identity() ? life.files.tls() : undefined),
    close: life.close,
  }
}
