/** The watch: brings what etcd tells, whole revisions in their order, into the store, and begins anew when it ends. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Change, Db } from '../../../core/area.ts'
import { ApiError } from '../../../core/errors.ts'
import { Outdated } from '../../../core/replication.ts'
import { system } from '../../../core/state/events.ts'
import { Database } from '../../../core/state/sqlite.ts'
import type { EngineContext } from '../engine.ts'
import { type Etcd, EtcdError, type WatchEvent } from '../etcd/client.ts'
import { CHANGE, ROWS, SERIAL } from '../keys.ts'
import { unavailable } from '../membership.ts'
import { queries } from '../queries.ts'

export interface Following {
  start(etcd: Etcd): void
  /** What is being taken over is finished. */
  stop(): Promise<void>
  caughtUp(revision: number): Promise<void>
  /** Everything up to here is in the store. */
  applied(): number
  /** What is wrong with rows that the store takes neither one by one nor all anew; undefined: nothing is known to be. */
  failure(): unknown
  /** Takes everything over anew once, though the watch goes on. @throws ApiError 503 when it cannot be done, or takes too long */
  takeAnew(): Promise<void>
}

export interface FollowingEvents {
  /** The rule by which revisions come into the store. */
  apply(tx: Db, revisions: readonly WatchEvent[][]): Promise<Change<void>>
  /** Why the revisions that the cluster tells do not follow on what this node has; undefined: they do. */
  outOfStep(etcd: Etcd): Promise<string | undefined>
  /** Takes everything over anew; resolves to the revision. */
  reload(etcd: Etcd): Promise<number>
  cutOff(): void
  /** Keys that are not of rows. */
  told(events: readonly WatchEvent[]): void
}

/** Revisions that come into the store by one commit when many wait, and keys. */
const MOST_REVISIONS = 100
const MOST_KEYS = 1000
const CATCH_UP_MS = 5000
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [50, 1000]
/** A store that refuses the same revisions so often may yet take everything anew. */
const FAILURES = 5
const RETRY_MS = 500
const BEHIND = 'this node is behind the other members; try again'

interface Waiter {
  revision: number
  resolve(): void
}

const isRow = ({ key }: WatchEvent) => key.startsWith(ROWS) || key.startsWith(SERIAL) || key.startsWith(CHANGE)

export function openFollowing(context: EngineContext, events: FollowingEvents): Following {
  const { log, read } = context
  const waiters = new Set<Waiter>()
  let running: { stopped: AbortController; done: Promise<void> } | undefined
  /** Everything up to here is in the store. */
  let applied = 0
  /** It is to be done once. */
  let anew: ReturnType<typeof toBeSettled> | undefined
  let wake = () => {}
  let failure: unknown

  function settleAnew(error?: unknown): void {
    if (error === undefined) anew?.resolve()
    else anew?.reject(unavailable('this node cannot take over all that the members share; its log says why', error))
    anew = undefined
  }

  function reached(revision: number): void {
    applied = Math.max(applied, revision)
    for (const waiter of waiters) {
      if (waiter.revision > applied) continue
      waiters.delete(waiter)
      waiter.resolve()
    }
  }

  async function follow(etcd: Etcd, stopped: AbortSignal): Promise<void> {
    applied = queries(read).self.get()?.revision ?? 0
    for (let pause = FIRST_PAUSE_MS; !stopped.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      const { why, heard } = await followOnce(etcd, stopped)
      if (stopped.aborted) return
      if (heard) pause = FIRST_PAUSE_MS
      if (why === 'ended') events.cutOff()
      else await reload(etcd, why)
      await delay(pause, undefined, { signal: stopped }).catch(() => {})
    }
  }

  async function followOnce(etcd: Etcd, stopped: AbortSignal): Promise<{ why: string; heard: boolean }> {
    try {
      const why = await events.outOfStep(etcd)
      if (why !== undefined) return { why, heard: false }
    } catch (error) {
      log.debug({ err: error }, 'etcd does not say up to where it is')
      return { why: 'ended', heard: false }
    }
    return watchOnce(etcd, stopped)
  }

  async function reload(etcd: Etcd, why: string): Promise<void> {
    try {
      const revision = await events.reload(etcd)
      log.info({ why, revision }, 'all rows of the cluster were taken over anew')
      applied = revision
      reached(revision)
      failure = undefined
      settleAnew()
    } catch (error) {
      failure = isOfRows(error) ? error : undefined
      log.error({ err: error, why }, 'the rows of the cluster could not be taken over; it is tried again')
      settleAnew(error)
    }
  }

  /** One stream, to its end, and everything that it brought. */
  async function watchOnce(
    etcd: Etcd,
    stopped: AbortSignal,
  ): Promise<{ why: 'ended' | 'compacted' | 'outdated' | 'failed' | 'refused'; heard: boolean }> {
    const queue: { events: WatchEvent[]; revision: number }[] = []
    const state = { ended: false, compacted: false, heard: false }
    const over = () => {
      state.ended = true
      wake()
    }
    const stop = etcd.watch('/', applied + 1, {
      events(told, revision) {
        state.heard = true
        queue.push({ events: told, revision })
        wake()
      },
      end({ compacted = false }) {
        state.compacted = compacted
        over()
      },
    })
    stopped.addEventListener('abort', over, { once: true })
    try {
      for (let failures = 0; !stopped.aborted; ) {
        if (anew) return { why: 'refused', heard: state.heard }
        if (queue.length === 0) {
          if (state.ended) break
          await new Promise<void>((resolve) => {
            wake = resolve
          })
          continue
        }
        const portion = takePortion(queue)
        try {
          await takeOver(portion.events)
          reached(portion.revision)
          failures = 0
        } catch (error) {
          // The watch will not tell of the row again.
          if (error instanceof Outdated) return { why: 'outdated', heard: state.heard }
          failures++
          log.error({ err: error, failures }, 'changes by other members could not be stored; it is tried again')
          if (failures >= FAILURES) return { why: 'failed', heard: state.heard }
          queue.unshift(portion)
          await delay(RETRY_MS, undefined, { signal: stopped }).catch(() => {})
        }
      }
    } finally {
      stop()
      stopped.removeEventListener('abort', over)
    }
    return { why: state.compacted ? 'compacted' : 'ended', heard: state.heard }
  }

  async function takeOver(told: readonly WatchEvent[]): Promise<void> {
    const others = told.filter((event) => !isRow(event))
    const revisions = byRevision(told.filter(isRow))
    if (revisions.length > 0) await context.adopt(system('cluster'), (tx) => events.apply(tx, revisions))
    try {
      if (others.length > 0) events.told(others)
    } catch (error) {
      log.error({ err: error }, 'what is told beside rows was not understood')
    }
  }

  return {
    start(etcd) {
      failure = undefined
      const stopped = new AbortController()
      const done = follow(etcd, stopped.signal).catch((error: unknown) => log.error({ err: error }, 'the watch ended'))
      running = { stopped, done }
    },
    async stop() {
      const { stopped, done } = running ?? {}
      running = undefined
      stopped?.abort()
      await done
      settleAnew(new Error('it ends'))
    },
    caughtUp(revision) {
      if (revision <= applied) return Promise.resolve()
      return new Promise((resolve, reject) => {
        const waiter = { revision, resolve: () => settle(resolve) }
        const timer = setTimeout(() => {
          waiters.delete(waiter)
          reject(unavailable(BEHIND))
        }, CATCH_UP_MS)
        const settle = (done: () => void) => {
          clearTimeout(timer)
          done()
        }
        waiters.add(waiter)
      })
    },
    applied: () => applied,
    failure: () => failure,
    takeAnew() {
      anew ??= toBeSettled()
      wake()
      const late = delay(CATCH_UP_MS, undefined, { ref: false }).then(() => Promise.reject(unavailable(BEHIND)))
      return Promise.race([anew.settled, late])
    },
  }
}

/** Whether it is the rows that cannot be stored, and not the disk, etcd or what this node has of its own. */
const isOfRows = (error: unknown): boolean =>
  error instanceof Database.SqliteError
    ? error.code.startsWith('SQLITE_CONSTRAINT')
    : !(error instanceof ApiError || error instanceof EtcdError)

function toBeSettled() {
  let [resolve, reject]: [() => void, (error: unknown) => void] = [() => {}, () => {}]
  const settled = new Promise<void>((done, failed) => {
    resolve = done
    reject = failed
  })
  return { settled, resolve, reject }
}

/** As much as one commit shall bring. */
function takePortion(queue: { events: WatchEvent[]; revision: number }[]): { events: WatchEvent[]; revision: number } {
  const events: WatchEvent[] = []
  let revision = 0
  for (let count = 0; count < MOST_REVISIONS && events.length < MOST_KEYS; count++) {
    const next = queue.shift()
    if (next === undefined) break
    for (const event of next.events) events.push(event)
    revision = Math.max(revision, next.revision)
  }
  return { events, revision }
}

/** What arrives together may be of several revisions, one after the other. */
function byRevision(events: readonly WatchEvent[]): WatchEvent[][] {
  const revisions: WatchEvent[][] = []
  for (const event of events) {
    const last = revisions.at(-1)
    if (last?.[0]?.revision === event.revision) last.push(event)
    else revisions.push([event])
  }
  return revisions
}
