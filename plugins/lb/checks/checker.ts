/**
 * Health checks. Every backend that is checked has a timer of its own, and they stand apart, so that never many are due at
 * once. What is asked for is in the store and read anew for each look, so a backend that left needs no notice: its timer
 * finds no row. Health changes as anything does, by a change of the store with the kernel; a frozen licence freezes
 * neither.
 */
import type { AreaContext } from '../../../core/area.ts'
import { PAGE } from '../../../core/transport/list.ts'
import { queries } from '../queries.ts'
import { TIMERS, type Timers } from '../timers.ts'
import { judge, longer, NO_STREAK, type Streak } from './judge.ts'
import { type Probe, probe } from './probe.ts'
import { openRegistrar, type Registrar } from './registrar.ts'

/** Looks at a time. Each has a socket; more wait for their turn. */
const AT_ONCE = 256
/** Looks that begin in one turn of the event loop: each takes some 0.2 ms. */
const AT_A_TURN = 16
/** New backends are looked at within this time. */
const SOON_MS = 1000
/** Multiples of it fill an interval more and more evenly, however many they are. */
const GOLDEN = 0.618_033_988_749_895

export interface CheckerParts extends Pick<AreaContext, 'read' | 'mutate' | 'onCommit' | 'log' | 'plane'> {
  timers?: Timers
  probe?: Probe
  atOnce?: number
}

export interface Checker {
  /** Resolves when nothing is being looked at and nothing found out waits to be stored. */
  idle(): Promise<void>
  stop(): Promise<void>
}

interface Watched {
  streak: Streak
  /** Of the backend at the last look. */
  revision: number
  /** Keeps the next look from taking place. */
  cancel: () => void
}

export function openChecker(parts: CheckerParts): Checker {
  const { read, onCommit, log, timers = TIMERS, atOnce = AT_ONCE } = parts
  const look = parts.probe ?? probe
  const registrar: Registrar = openRegistrar(parts)
  const watched = new Map<number, Watched>()
  /** Numbers of those that are due and wait for their turn, in its order. */
  const queue = new Set<number>()
  const running = new Set<Promise<void>>()
  /** One for each look that goes on. */
  const patient = new Set<AbortController>()
  let [latest, noticing, stopped] = [0, false, false]
  /** Looks that began in this turn of the event loop. */
  let begun = 0

  /** Takes up backends that are new to it, page by page. */
  async function notice(within: (intervalMs: number) => number): Promise<void> {
    if (noticing) return
    noticing = true
    for (let more = true; more && !stopped; ) {
      const page = queries(read).later.all({ after: latest })
      for (const { number, checkType, checkInterval } of page) {
        latest = number
        if (checkType === '') continue
        watched.set(number, { streak: NO_STREAK, revision: 0, cancel: () => {} })
        due(number, within(checkInterval * 1000) * ((number * GOLDEN) % 1))
      }
      more = page.length === PAGE
      if (more) await new Promise(setImmediate)
    }
    noticing = false
  }

  function due(number: number, ms: number): void {
    const one = watched.get(number)
    if (one === undefined || stopped) return
    one.cancel = timers.after(ms, () => {
      queue.add(number)
      next()
    })
  }

  function next(): void {
    for (const number of queue) {
      if (stopped || patient.size >= atOnce || begun >= AT_A_TURN) return
      if (begun++ === 0) {
        setImmediate(() => {
          begun = 0
          next()
        })
      }
      queue.delete(number)
      const run: Promise<void> = round(number)
        .catch((error: unknown) => log.error({ err: error }, 'a health check failed by itself'))
        .finally(() => running.delete(run))
      running.add(run)
    }
  }

  /** One look, and what follows from it. */
  async function round(number: number): Promise<void> {
    const [one, row] = [watched.get(number), queries(read).checked.get({ number })]
    if (one === undefined || row === undefined) return void watched.delete(number)
    const { backend, vip } = row
    if (vip.checkType === '') return
    const began = timers.now()
    if (one.revision !== backend.revision) Object.assign(one, { streak: NO_STREAK, revision: backend.revision })
    const target = { type: vip.checkType, address: backend.ip, port: backend.port, path: vip.checkPath }
    const why = await timed(target, vip.checkTimeout * 1000)
    if (stopped) return
    one.streak = longer(one.streak, why === undefined)
    await decide(number, one, vip.checkThreshold, why)
    due(number, Math.max(0, vip.checkInterval * 1000 - (timers.now() - began)))
  }

  async function timed(target: Parameters<Probe>[0], ms: number): Promise<string | undefined> {
    const patience = new AbortController()
    const cancel = timers.after(ms, () => patience.abort())
    patient.add(patience)
    try {
      return await look(target, patience.signal)
    } finally {
      cancel()
      patient.delete(patience)
      next()
    }
  }

  async function decide(number: number, one: Watched, threshold: number, why: string | undefined): Promise<void> {
    const backend = queries(read).backend.get({ number })
    // Overridden while it was looked at: the next look is the first that counts.
    if (backend === undefined || backend.state === 'draining' || backend.revision !== one.revision) return
    const healthy = judge(backend, one.streak, threshold)
    if (healthy === undefined) return
    log.info({ vip: backend.vip, backend: backend.id, healthy, why }, 'a health check decides')
    await registrar.store({ number, revision: one.revision, healthy })
  }

  // After a start everybody is taken for what he was, and looked at in the course of an interval.
  const first = notice((interval) => interval)
  const deaf = onCommit(() => void notice((interval) => Math.min(interval, SOON_MS)))

  return {
    async idle() {
      while (running.size + queue.size > 0) {
        await Promise.allSettled(running)
        await new Promise(setImmediate)
      }
    },
    async stop() {
      deaf()
      stopped = true
      for (const { cancel } of watched.values()) cancel()
      for (const patience of patient) patience.abort()
      queue.clear()
      await Promise.allSettled([first, ...running])
    },
  }
}
