/** The life of a member: founding, entering, leaving, and what it was when the agent starts. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Db, Mutation } from '../../core/area.ts'
import { ApiError, conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import { certify, makeAuthority, makeKey } from './certificates.ts'
import type { Admission, EngineContext, EngineOptions } from './engine.ts'
import { endLeft, peerUrl, whyNoEtcd } from './etcd/child.ts'
import type { Etcd } from './etcd/client.ts'
import { type Session, untilAnswers } from './etcd/session.ts'
import { absent, put } from './etcd/words.ts'
import { type Files, openFiles } from './files.ts'
import { META, memberKey } from './keys.ts'
import * as membership from './membership.ts'
import { forgetCluster, MEMBERS_REF, queries } from './queries.ts'
import type { Replica } from './replicate/replica.ts'
import { depart, openRunning } from './running.ts'
import * as tables from './tables.ts'
import type { Watching } from './watching.ts'

const { asUnavailable, rethrow, unavailable } = membership
/** From spawning etcd to its first answer. */
const START_MS = 30_000
/** A new member catches up meanwhile and is made a voter. */
const ENTER_MS = 120_000
/** For handing leadership over when the agent ends. */
const YIELD_MS = 2000
const RETRY_MS = 1000
const MINORITY =
  'no majority of the members can be reached, so none can leave; if the others are gone for good: stratumctl cluster recover'
const LOST = "etcd's data is lost: remove this node from another member, then have it leave and join again"

export interface Life {
  readonly replica: Replica
  readonly watching: Watching
  readonly files: Files
  identity(): tables.Self | undefined
  place(): membership.Place
  /** @throws ApiError 503 unless this node is a member whose etcd runs */
  etcd(): Etcd
  /** Runs one step of this life at a time. */
  next<T>(work: () => Promise<T>): Promise<T>
  start(): Promise<void>
  found(): Promise<void>
  enter(admission: Admission, key: string): Promise<void>
  quit(): Promise<void>
  recover(): Promise<void>
  close(): Promise<void>
}

export function openLife(context: EngineContext, options: EngineOptions): Life {
  const { log, read, now } = context
  const { peerPort } = options
  const files = openFiles(options.stateDir)
  const running = openRunning(context, options, files, {
    alone: () => void dissolve().catch(problem('go on alone')),
    removed: (from) => void next(() => wasRemoved(from)).catch(problem('leave')),
  })
  const { replica, watching, run, live, stop } = running
  const closing = new AbortController()
  let tail: Promise<unknown> = Promise.resolve()

  const identity = (): tables.Self | undefined => queries(read).self.get()
  const self = () => identity()?.node ?? options.self
  const problem = (what: string) => (error: unknown) =>
    log.error({ err: error }, `the cluster engine could not ${what}`)
  /** One step of this life at a time. */
  function next<T>(work: () => Promise<T>): Promise<T> {
    const run = tail.then(work)
    tail = run.catch(() => {})
    return run
  }
  const change = (work: (tx: Db) => unknown): Promise<Mutation<void>> =>
    context.mutate(system('cluster'), async (tx) => {
      await work(tx)
      return { result: undefined, touch: [MEMBERS_REF], events: [] }
    })

  /** In no cluster from the commit on; what is left of one goes then, or at the next start. */
  async function becomeStandalone(): Promise<void> {
    await stop()
    await change(forgetCluster)
    await wipe()
    watching.tell()
  }
  async function wipe(): Promise<void> {
    if (files.hasData()) await endLeft(files.dataDir)
    await files.wipe()
  }

  async function wasRemoved(from: Session): Promise<void> {
    // It left by itself meanwhile.
    if (running.session() !== from) return
    log.warn('this node was removed from its cluster and goes on by itself')
    await becomeStandalone()
  }

  /** @throws ApiError 503 unless this node is a member whose etcd runs */
  function etcd(): Etcd {
    const session = identity()?.mode === 'member' ? running.session() : undefined
    if (session === undefined) throw unavailable('this node is in no cluster')
    return session.etcd
  }
  const place = () => ({ self: self(), peerPort: identity()?.peerPort ?? peerPort, now })

  async function found(): Promise<void> {
    if (identity()) return
    mustHaveEtcd()
    await wipe()
    const [cluster, node, address] = [randomBytes(8).toString('hex'), options.self, options.address()]
    const authority = await makeAuthority(cluster, now())
    const { key, publicKey } = makeKey()
    const certificate = await certify(authority, { node, address, publicKey }, now())
    files.keep({ ca: authority.certificate, certificate, key })
    const initialCluster = `${node}=${peerUrl(address, peerPort)}`
    const me: tables.Self = { id: 1, mode: 'member', node, cluster, address, peerPort, initialCluster, revision: 0 }
    try {
      const session = await run(me, 'new')
      const own = session.etcd
      await untilAnswers(session, () => own.get(META.id, { ms: 500 }), START_MS, closing.signal)
      await change(async (tx) => {
        const record = { address, since: now().toISOString() }
        const first = [put(META.id, cluster), put(META.ca, JSON.stringify(authority))]
        const mark = [put(memberKey(node), JSON.stringify(record)), put(META.imported, node)]
        await replica.importInto(tx, own, node)
        const { succeeded, revision } = await own.txn([absent(META.imported)], [...first, ...mark], START_MS)
        if (!succeeded) throw new Error('the new etcd is in use already')
        tx.insert(tables.self)
          .values({ ...me, revision })
          .run()
      })
    } catch (error) {
      await stop()
      await wipe()
      throw unavailable(`no cluster could be made: ${(error as Error).message}`, error)
    }
    const session = running.session()
    if (session) await settle(session, me)
  }

  async function enter(admission: Admission, key: string): Promise<void> {
    if (identity()) throw conflict('IN_CLUSTER', 'this node is in a cluster already: leave it first')
    mustHaveEtcd()
    await wipe()
    const { cluster, ca, certificate, initialCluster } = admission
    files.keep({ ca, certificate, key })
    const who = { node: options.self, address: options.address(), peerPort }
    const me: tables.Self = { id: 1, mode: 'joining', cluster, initialCluster, revision: 0, ...who }
    try {
      await change((tx) => tx.insert(tables.self).values(me).run())
      await run(me, 'existing')
      await load(me, ENTER_MS)
    } catch (error) {
      await abandon().catch(problem('take back an entry'))
      throw asUnavailable(error)
    }
  }

  /** The leader makes this node a voter as soon as it has caught up; then it takes the rows over. */
  async function load(me: tables.Self, ms: number): Promise<void> {
    const session = running.session()
    if (session === undefined) throw unavailable('etcd does not run')
    try {
      await untilAnswers(session, (own) => own.get(META.imported, { ms: 500 }), ms, closing.signal)
    } catch (error) {
      throw unavailable(`this node was not taken in: ${(error as Error).message}`, error)
    }
    await context.adopt(system('cluster'), async (tx) => {
      const change = await replica.loadFrom(tx, session.etcd, me.node)
      tx.update(tables.self).set({ mode: 'member' }).run()
      return change
    })
    await settle(session, { ...me, mode: 'member' })
  }

  /** Out of what this node had begun to enter. A learner that only stops is withdrawn by the others in time. */
  async function abandon(): Promise<void> {
    const session = running.session()
    if (session) await membership.leave(session.etcd, place()).catch(() => {})
    await becomeStandalone()
  }

  async function quit(): Promise<void> {
    const session = running.session()
    const me = identity()
    if (me === undefined) return
    if (me.mode === 'joining') return abandon()
    await watching.look()
    const alone = watching.standing()?.members.length === 1
    if (session !== undefined && files.hasData() && !alone) {
      if (!watching.standing()?.writable) throw unavailable(MINORITY)
      await haveAll(session).catch(rethrow)
      await depart(session, place())
    }
    await becomeStandalone()
  }

  /** The last other member is gone: the rows are all here, and SQLite is enough. */
  function dissolve(): Promise<void> {
    return next(async () => {
      const session = running.session()
      if (session === undefined || identity()?.mode !== 'member' || watching.standing()?.members.length !== 1) return
      await haveAll(session)
      // What was known before may have been of an earlier time.
      if ((await session.etcd.members()).length === 1) await becomeStandalone()
    })
  }

  /** Everything that others have changed before. */
  async function haveAll({ etcd: own }: Session): Promise<void> {
    const { revision } = await own.range(META.id, { limit: 1 })
    await replica.caughtUp(revision)
  }

  async function recover(): Promise<void> {
    const me = identity()
    if (me?.mode !== 'member') throw conflict('NO_CLUSTER', 'this node is in no cluster')
    if (!files.hasData()) throw conflict('NO_DATA', LOST)
    await stop()
    const once = await run(me, 'existing', true)
    try {
      await untilAnswers(once, (own) => own.get(META.id, { ms: 500 }), START_MS, closing.signal)
      await membership.forgetOthers(once.etcd, me.node)
    } catch (error) {
      throw asUnavailable(error)
    } finally {
      await stop()
      await settle(await run(me, 'existing'), me)
    }
  }

  /** Until this member can make changes, should that not take too long. */
  async function settle(session: Session, me: tables.Self): Promise<void> {
    await live(session, me)
    const answers = untilAnswers(session, (own) => own.get(META.id, { ms: 500 }), START_MS, closing.signal)
    await answers.catch(problem('get an answer of etcd'))
    await watching.look()
  }

  function mustHaveEtcd(): void {
    const reason = whyNoEtcd(options.program)
    if (reason) throw unavailable(reason)
  }

  /** Takes up what this node was; does not wait for etcd. */
  async function resume(): Promise<void> {
    const me = identity()
    // What a conversion left that was not finished.
    if (me === undefined) return wipe()
    if (!files.hasData() && me.mode === 'member') return log.error(LOST)
    const session = await run(me, 'existing')
    if (me.mode === 'member') await live(session, me)
    else void goOnEntering(me).catch(problem('finish entering its cluster'))
  }

  async function goOnEntering(me: tables.Self): Promise<void> {
    while (!closing.signal.aborted && running.session()) {
      try {
        return await load(me, ENTER_MS)
      } catch (error) {
        if (closing.signal.aborted) return
        log.warn({ err: error }, 'entering the cluster is not finished yet')
        if (error instanceof ApiError && error.status === 409) return next(abandon)
        await delay(RETRY_MS, undefined, { signal: closing.signal }).catch(() => {})
      }
    }
  }

  async function close(): Promise<void> {
    closing.abort()
    await next(async () => {
      const session = running.session()
      if (session) await Promise.race([membership.yieldTo(session.etcd), delay(YIELD_MS)]).catch(() => {})
      await stop()
    })
  }

  return {
    replica,
    watching,
    files,
    identity,
    place,
    etcd,
    next,
    start: () => next(resume),
    found: () => next(found),
    enter: (admission, key) => next(() => enter(admission, key)),
    quit: () => next(quit),
    recover: () => next(recover),
    close,
  }
}
