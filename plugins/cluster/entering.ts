/** How a node becomes a member of a cluster that is there, and how it is none after all. */
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import { toldOf } from './desired.ts'
import type { Engine } from './engine.ts'
import type { EtcdExit } from './etcd/child.ts'
import { type Session, untilAnswers } from './etcd/session.ts'
import { META } from './keys.ts'
import type { Steps } from './life.ts'
import * as membership from './membership.ts'
import { MEMBERS_REF, queries } from './queries.ts'
import { readAll } from './replicate/copy.ts'
import { depart, hasEnded, LEFT_MS } from './running.ts'
import * as tables from './tables.ts'

const { asUnavailable, unavailable } = membership
/** A new member catches up meanwhile and is made a voter. */
const ENTER_MS = 120_000
/** How often the members are asked meanwhile whether they can take it in. */
const ASK_MS = 2000
/** Of one look whether it has, while nobody waits for it. */
const LOOK_MS = 5000
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [1000, 60_000]

/** What etcd says when no member told it who the others are: each may be starting its own anew. */
const UNTOLD = /cannot fetch cluster info|failed to get raft cluster member/
const wasUntold = ({ code, said }: EtcdExit) => code !== 0 && UNTOLD.test(said)

const COUNTED_ON =
  'the members may count on this node by now and cannot be reached; if they are gone for good: stratumctl cluster recover'

interface Wait {
  ms: number
  signal: AbortSignal
}

export interface Entering {
  /** See `Engine.enter`. */
  enter: Engine['enter']
  /** Goes on with what was begun until this node is a member or has nothing to do with the cluster any more. Never rejects. */
  goOn(session: Session, me: tables.Self): Promise<void>
  /** Out of what was begun. @throws ApiError 503 */
  leaveOff(): Promise<void>
}

export function openEntering(steps: Steps): Entering {
  const { context, options, files, running, closing, identity, place, next } = steps
  const { replica } = running

  const enter: Engine['enter'] = async (admission, own, withdraw, mayCome = async () => {}) => {
    if (identity()) throw conflict('IN_CLUSTER', 'this node is in a cluster already: leave it first')
    steps.mustBeAble()
    await steps.wipe()
    const { cluster, authorities, initialCluster, revision = 0 } = admission
    const { certificate, key, authority } = own
    files.keepAuthority(authority)
    files.keep({ ca: [...authorities, authority.certificate].join(''), certificate, key })
    const who = { node: options.self, address: options.address(), peerPort: options.peerPort }
    const rest = { initialCluster, revision: 0, shares: '', hadOthers: false, newcomersUntil: '' }
    const me: tables.Self = { id: 1, mode: 'joining', cluster, ...who, ...rest }
    try {
      await steps.change((tx) => tx.insert(tables.self).values(me).run())
      const session = await running.run(me, 'existing')
      await unlessRefused(mayCome, async (signal) => {
        await caughtUp(session, revision, { ms: ENTER_MS, signal })
        await replica.judge(session.etcd)
        await promoted(session, { ms: ENTER_MS, signal })
      })
      await load(session, me)
    } catch (error) {
      await takeBack(me, withdraw)
      throw asUnavailable(error)
    }
  }

  /** Whether the members can take this node in may change while it waits for them. */
  async function unlessRefused(mayCome: () => Promise<unknown>, work: (signal: AbortSignal) => Promise<void>) {
    const over = new AbortController()
    const { signal } = over
    const ask = async () => {
      for (; !signal.aborted; await delay(ASK_MS, undefined, { signal }).catch(() => {})) {
        await mayCome().catch((error: unknown) => {
          if (error instanceof ApiError && error.status === 409) over.abort(error)
        })
      }
    }
    void ask()
    return work(AbortSignal.any([closing, signal])).finally(() => over.abort())
  }

  /** While it does not vote it has at least what the cluster had when it was admitted. */
  const caughtUp = (session: Session, admitted: number, how: Wait) =>
    answered(session, how, async ({ etcd }) => {
      const { kvs, revision } = await etcd.range(META.imported, { local: true, ms: 500 })
      if (kvs.length === 0 || revision < admitted) throw new Error('it has not caught up')
    })
  /** The leader makes it a voter then. */
  const promoted = (session: Session, how: Wait) =>
    answered(session, how, ({ etcd }) => etcd.get(META.imported, { ms: 500 }))

  async function answered(session: Session, { ms, signal }: Wait, probe: (session: Session) => Promise<unknown>) {
    try {
      await untilAnswers(session, () => probe(session), ms, signal, wasUntold)
    } catch (error) {
      if (error instanceof ApiError) throw error
      const open = `TCP port ${options.peerPort} must be open both ways between this node and each member`
      throw unavailable(`this node was not taken in; ${open}; ${(error as Error).message}`, error)
    }
  }

  async function load(session: Session, me: tables.Self): Promise<void> {
    const all = await readAll(session.etcd, context.collections)
    await context.adopt(system('cluster'), async (tx) => {
      const change = await replica.load(tx, all, me.node)
      tx.update(tables.self).set({ mode: 'member' }).run()
      // Until it has seen who the members are it goes by those that it was told of.
      for (const { node, address } of toldOf(me)) {
        if (node !== me.node) queries(tx).seen.run({ node, address, voter: 1, lastSeen: null })
      }
      change.touch.push(MEMBERS_REF)
      return change
    })
    await steps.settle(session, { ...me, mode: 'member' })
  }

  /** Whoever is withdrawn is told so by its etcd, which ends. One that votes by now leaves by itself, or goes on until it can. */
  async function takeBack(me: tables.Self, withdraw: () => Promise<unknown>): Promise<void> {
    try {
      const session = running.session()
      if (session && files.hasData()) {
        const withdrawn = await withdraw().catch(() => false)
        if (withdrawn === true) return await steps.becomeStandalone()
        if (withdrawn !== false) await hasEnded(session, LEFT_MS)
      }
      if (await isOut(false)) return await steps.becomeStandalone()
      if (session) void goOn(session, me)
    } catch (error) {
      steps.problem('take back an entry')(error)
    }
  }

  /** Whether the cluster counts on this node's etcd no longer. A member that were only gone could take the majority along. */
  async function isOut(mayStay: boolean): Promise<boolean> {
    const session = running.session()
    if (!files.hasData() || session?.lastExit()?.code === 0) return true
    if (session === undefined) return false
    try {
      if (mayStay && (await session.etcd.status()).isLearner) return true
      await depart(session, place())
      return true
    } catch (error) {
      context.log.debug({ err: error }, 'this node cannot leave what it has begun to enter')
      return false
    }
  }

  async function goOn(session: Session, me: tables.Self): Promise<void> {
    const isOver = () => closing.aborted || running.session() !== session || identity()?.mode !== 'joining'
    for (let pause = FIRST_PAUSE_MS; !isOver(); pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        await promoted(session, { ms: LOOK_MS, signal: closing })
        await next(async () => void (isOver() || (await load(session, me))))
      } catch (error) {
        if (isOver()) return
        context.log.warn({ err: error }, 'entering the cluster is not finished yet')
        // It has rows of its own.
        if (error instanceof ApiError && error.status === 409) {
          await next(async () => void (!isOver() && (await isOut(false)) && (await steps.becomeStandalone()))).catch(
            steps.problem('take back an entry'),
          )
        }
        await delay(pause, undefined, { signal: closing }).catch(() => {})
      }
    }
  }

  return {
    enter,
    goOn,
    async leaveOff() {
      // A learner that only stops is withdrawn by the others in time.
      if (!(await isOut(true))) throw unavailable(COUNTED_ON)
      await steps.becomeStandalone()
    },
  }
}
