/** How a node becomes a member of a cluster that is there, and how it is none after all. */
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, conflict } from '../../core/errors.ts'
import { system } from '../../core/state/events.ts'
import type { Own } from './authority.ts'
import { toldOf } from './desired.ts'
import type { Admission } from './engine.ts'
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
/** Of one look whether it has, while nobody waits for it. */
const LOOK_MS = 5000
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [1000, 60_000]

/** What etcd says when no member told it who the others are: each may be starting its own anew. */
const UNTOLD = /cannot fetch cluster info|failed to get raft cluster member/
const wasUntold = ({ code, said }: EtcdExit) => code !== 0 && UNTOLD.test(said)

const COUNTED_ON =
  'the members may count on this node by now and cannot be reached; if they are gone for good: stratumctl cluster recover'

export interface Entering {
  enter(admission: Admission, own: Own, withdraw: () => Promise<unknown>): Promise<void>
  /** Goes on with what was begun until this node is a member or has nothing to do with the cluster any more. Never rejects. */
  goOn(session: Session, me: tables.Self): Promise<void>
  /** Out of what was begun. @throws ApiError 503 */
  leaveOff(): Promise<void>
}

export function openEntering(steps: Steps): Entering {
  const { context, options, files, running, closing, identity, place, next } = steps
  const { replica } = running

  async function enter(admission: Admission, own: Own, withdraw: () => Promise<unknown>): Promise<void> {
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
      await caughtUp(session, revision, ENTER_MS)
      await replica.judge(session.etcd)
      await promoted(session, ENTER_MS)
      await load(session, me)
    } catch (error) {
      await takeBack(me, withdraw)
      throw asUnavailable(error)
    }
  }

  /** While it does not vote it has at least what the cluster had when it was admitted. */
  const caughtUp = (session: Session, admitted: number, ms: number) =>
    answered(session, ms, async ({ etcd }) => {
      const { kvs, revision } = await etcd.range(META.imported, { local: true, ms: 500 })
      if (kvs.length === 0 || revision < admitted) throw new Error('it has not caught up')
    })
  /** The leader makes it a voter then. */
  const promoted = (session: Session, ms: number) =>
    answered(session, ms, ({ etcd }) => etcd.get(META.imported, { ms: 500 }))

  async function answered(session: Session, ms: number, probe: (session: Session) => Promise<unknown>): Promise<void> {
    try {
      await untilAnswers(session, () => probe(session), ms, closing, wasUntold)
    } catch (error) {
      throw unavailable(`this node was not taken in: ${(error as Error).message}`, error)
    }
  }

  async function load(session: Session, me: tables.Self): Promise<void> {
    const all = await readAll(session.etcd)
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
        await promoted(session, LOOK_MS)
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
