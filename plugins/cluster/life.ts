/** The life of a member: founding, entering, leaving, and what it was when the agent starts. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Db, Mutation } from '../../core/area.ts'
import { conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import type { EngineContext, EngineOptions } from './engine.ts'
import { type Entering, openEntering } from './entering.ts'
import { endLeft, whyNoEtcd } from './etcd/child.ts'
import type { Etcd } from './etcd/client.ts'
import { type Session, untilAnswers } from './etcd/session.ts'
import { type Files, openFiles } from './files.ts'
import { openFounding } from './founding.ts'
import { META } from './keys.ts'
import * as membership from './membership.ts'
import { forgetCluster, MEMBERS_REF, queries } from './queries.ts'
import type { Replica } from './replicate/replica.ts'
import { depart, openRunning, type Running } from './running.ts'
import type * as tables from './tables.ts'
import type { Watching } from './watching.ts'

const { rethrow, unavailable } = membership
/** From spawning etcd to its first answer. */
export const START_MS = 30_000
/** For handing leadership over when the agent ends. */
const YIELD_MS = 2000
const RETRY_MS = 1000
const MINORITY =
  'no majority of the members can be reached, so none can leave; if the others are gone for good: stratumctl cluster recover'
export const LOST = "etcd's data is lost: remove this node from another member, then have it leave and join again"

/** What the steps of a member's life have in common. */
export interface Steps {
  context: EngineContext
  options: EngineOptions
  files: Files
  running: Running
  /** The agent ends. */
  closing: AbortSignal
  identity(): tables.Self | undefined
  place(): membership.Place
  /** One step at a time. */
  next<T>(work: () => Promise<T>): Promise<T>
  change(work: (tx: Db) => unknown): Promise<Mutation<void>>
  mustBeAble(): void
  settle(session: Session, me: tables.Self): Promise<void>
  becomeStandalone(): Promise<void>
  wipe(): Promise<void>
  problem(what: string): (error: unknown) => void
}

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
  enter: Entering['enter']
  dismissed(): Promise<void>
  quit(): Promise<void>
  recover(): Promise<void>
  /** See `Trust.learn`. */
  learn(authorities: readonly string[]): Promise<void>
  /** See `Trust.anew`. */
  anew(): Promise<void> | undefined
  close(): Promise<void>
}

export function openLife(context: EngineContext, options: EngineOptions): Life {
  const { log, read, now } = context
  const { peerPort } = options
  const files = openFiles(options.stateDir)
  const closing = new AbortController()
  const running = openRunning(context, options, files, {
    alone: () => void dissolve().catch(problem('go on alone')),
    removed: (from) => void wasRemoved(from),
    next,
    closing: closing.signal,
  })
  const { replica, watching, run, live, stop } = running
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

  /** Tried until it is done: nobody tells of it again. */
  async function wasRemoved(from: Session): Promise<void> {
    for (let over = false; !over && !closing.signal.aborted; ) {
      try {
        over = await next(() => takeRemoval(from))
      } catch (error) {
        problem('leave')(error)
        await delay(RETRY_MS, undefined, { signal: closing.signal }).catch(() => {})
      }
    }
  }

  async function takeRemoval(from = running.session()): Promise<true> {
    // Unless it left by itself meanwhile, and has perhaps entered another cluster.
    if (identity() && [from, undefined].includes(running.session())) {
      log.warn('this node was removed from its cluster and goes on by itself')
      await becomeStandalone()
    }
    return true
  }

  /** @throws ApiError 503 unless this node is a member whose etcd runs */
  function etcd(): Etcd {
    const session = identity()?.mode === 'member' ? running.session() : undefined
    if (session === undefined) throw unavailable('this node is in no cluster')
    return session.etcd
  }
  const place = () => ({ self: self(), peerPort: identity()?.peerPort ?? peerPort, now })

  async function quit(): Promise<void> {
    const session = running.session()
    const me = identity()
    if (me === undefined) return
    if (me.mode === 'joining') return entering.leaveOff()
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

  /** Until this member can make changes, should that not take too long. */
  async function settle(session: Session, me: tables.Self): Promise<void> {
    await live(session, me)
    const answers = untilAnswers(session, (own) => own.get(META.id, { ms: 500 }), START_MS, closing.signal)
    await answers.catch(problem('get an answer of etcd'))
    await watching.look()
  }

  /** @throws ApiError 503, or 409 while an area is off whose rows the members share */
  function mustBeAble(): void {
    const reason = whyNoEtcd(options.program)
    if (reason) throw unavailable(reason)
    const [off] = context.unreplicated
    if (off === undefined) return
    throw conflict('AREA_OFF', `the area ${off} is off here, and members share what it keeps: switch it on first`)
  }

  /** Takes up what this node was; does not wait for etcd. */
  async function resume(): Promise<void> {
    const me = identity()
    // What a conversion left that was not finished.
    if (me === undefined) return wipe()
    if (!files.hasData() && me.mode !== 'joining') return log.error(LOST)
    if (me.mode === 'recovering') return void next(founding.recover).catch(problem('go on alone'))
    const session = await run(me, 'existing')
    if (me.mode === 'member') await live(session, me)
    else void entering.goOn(session, me)
  }

  const shared = { context, options, files, running, closing: closing.signal, identity, place, next, change }
  const steps: Steps = { ...shared, mustBeAble, settle, becomeStandalone, wipe, problem }
  const [founding, entering] = [openFounding(steps), openEntering(steps)]

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
    found: () => next(founding.found),
    enter: (...by) => next(() => entering.enter(...by)),
    dismissed: () => next(async () => void (await takeRemoval())),
    quit: () => next(quit),
    recover: () => next(founding.recover),
    learn: running.trust.learn,
    anew: running.trust.anew,
    close,
  }
}
