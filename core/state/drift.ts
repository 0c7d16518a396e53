/**
 * Keeps the kernel as the store has it. A pass compares both and repairs what differs (reconcile.ts). Passes run at boot,
 * around changes that went wrong, and as drift detection: when others have changed something, which a cheap question to
 * the plane tells every second, and once every `drift_interval` whatever it tells.
 */
import type { FastifyBaseLogger } from 'fastify'
import { isFrame, type Passage } from '../../dataplane/entry.ts'
import type { Stop } from '../area.ts'
import type { Pass } from '../observe/passes.ts'
import type { Announce } from './announce.ts'
import { openContest, pauseMs } from './contest.ts'
import { system } from './events.ts'
import {
  areaOf,
  deviations,
  type ReconcileParts,
  type Repair,
  RepairRefused,
  type Repairs,
  repair,
} from './reconcile.ts'

const BEAT_MS = 1000
/** More keys than this are counted, not named. */
const MAX_NAMED = 20
/** While others commit all the time, comparing rests this many times as long as it takes: 5 % of a core at most. */
const REST = 20

/** An object in the kernel that is not as stored; `foreign` is something added inside what is ours. */
export interface Finding {
  key: string
  state: 'missing' | 'changed' | 'foreign'
}

/** What a pass found and did. */
export interface Outcome extends Repair {
  result: Pass['result']
  /** How many objects differed. */
  differing: number
  /** The first of them. */
  found: Finding[]
}

export interface Drift {
  /**
   * One pass, to be called in the pipeline.
   * @throws RepairRefused where one of `areas` (default: any) is concerned, or what kept the pass from ending
   */
  bring(cause: 'boot' | 'configuration', areas?: readonly string[]): Promise<void>
  /**
   * One pass after a change that went wrong, to be called in the pipeline. `meddled`: what differs is somebody else's doing.
   * Resolves to whether anything was repaired; never rejects.
   */
  mend(meddled: boolean): Promise<boolean>
  /** To be called in the pipeline. Makes sure that a change of `area` may build on what the kernel holds. @throws when that is not known */
  ground(area: string): Promise<void>
  /** One pass at once; with `dryRun` it only tells. @throws RepairRefused, or what kept the pass from ending */
  check(options: { dryRun: boolean }): Promise<Outcome>
  /** What is due now: nothing most of the time. Never rejects. */
  beat(): Promise<void>
  /** Beats from now on. */
  start(): Stop
}

export interface DriftParts extends ReconcileParts {
  exclusively<T>(work: () => Promise<T>): Promise<T>
  announce: Announce
  log: FastifyBaseLogger
  onPass(pass: Pass): void
  /** Why an area is not in the kernel as it is stored: kept here, read by whoever tells of it. */
  troubles: Map<string, string>
  /** Milliseconds that never go back. */
  clock?: (() => number) | undefined
}

interface Failure {
  count: number
  /** No earlier than this is it tried again. */
  until: number
  /** What the kernel holds is known: it refused. */
  known: boolean
  /** Areas in which what differs is nobody else's doing. */
  own: ReadonlySet<string>
}

type Mode = 'repair' | 'unless contested' | 'show'

export function openDrift(parts: DriftParts): Drift {
  const { plane, config, areas, exclusively, log, troubles, clock = () => performance.now() } = parts
  const intervalMs = () => config.int('drift_interval') * 1000
  const contest = openContest(clock)
  let failure: Failure | undefined
  /** When the last pass ended, and until when the next one may rest. */
  let [last, rest] = [clock(), 0]
  /** Something differs and nobody has repaired it. */
  let left = false
  /** When an object that is fought over may be repaired. */
  let waiting: number | undefined
  let running: Promise<unknown> | undefined

  /** `meddled`: what differs is somebody else's doing, unless it is left from a pass that failed. */
  async function pass(cause: Pass['cause'], mode: Mode, meddled: boolean): Promise<Outcome> {
    const since = clock()
    let diff: readonly Passage[] = []
    let theirs: readonly Passage[] = []
    const end = (result: Pass['result'], repairs?: Repairs) => {
      last = clock()
      parts.onPass({ cause, result, seconds: (last - since) / 1000, ...(repairs && { repaired: repairs.areas }) })
      return outcomeOf(result, diff, repairs)
    }
    try {
      const deviating = await deviations(parts)
      diff = deviating.diff
      theirs = meddled ? diff.filter((passage) => !failure?.own.has(areaOf(passage))) : []
      left = mode === 'show' && diff.length > 0
      waiting = mode === 'unless contested' && !failure ? contest.waits(diff.map(keyOf)) : undefined
      if (left) return end('deferred')
      if (waiting !== undefined) {
        troubles.clear()
        const pause = Math.ceil((waiting - clock()) / 1000)
        note(diff, `changed by somebody else again and again, repaired anew within ${pause} s`)
        return end('deferred')
      }
      note(theirs, 'changed by somebody else, being repaired')
      const done = await repair(plane, deviating)
      if (theirs.length > 0) contest.repaired(theirs.map(keyOf))
      recovered()
      const outcome = end(diff.length > 0 ? 'repaired' : 'clean', done)
      if (diff.length > 0) tell(cause, theirs.length > 0, outcome)
      return outcome
    } catch (error) {
      const outcome = end('failed', error instanceof RepairRefused ? error.done : undefined)
      failed(error, cause, meddled, outcome)
      if (theirs.length > 0 && (failure?.count === 1 || did(outcome))) tell(cause, true, outcome, messageOf(error))
      throw error
    }
  }

  function recovered(): void {
    if (failure) log.info({ attempts: failure.count }, 'the kernel holds again what is stored')
    failure = undefined
    troubles.clear()
  }

  function failed(error: unknown, cause: Pass['cause'], meddled: boolean, outcome: Outcome): void {
    const count = (failure?.count ?? 0) + 1
    const known = error instanceof RepairRefused
    troubles.clear()
    for (const { name, desired } of areas.values()) {
      const reason = known ? error.areas.get(name) : desired && messageOf(error)
      if (reason) troubles.set(name, `the kernel does not hold what is stored: ${reason}`)
    }
    const own = [...troubles.keys()].filter((area) => !meddled || failure?.own.has(area))
    failure = { count, known, own: new Set(own), until: clock() + pauseMs(count) }
    if (count > 1 && !did(outcome)) return
    log.error({ err: error, cause }, 'the kernel could not be brought to the store; this is tried again')
  }

  function note(diff: readonly Passage[], what: string): void {
    const byArea = new Map<string, string[]>()
    for (const passage of diff) {
      const keys = byArea.get(areaOf(passage))
      if (keys) keys.push(keyOf(passage))
      else byArea.set(areaOf(passage), [keyOf(passage)])
    }
    for (const [area, keys] of byArea) troubles.set(area, `${what}: ${named(keys)}`)
  }

  /** Log and event of a pass that found something. */
  function tell(cause: Pass['cause'], meddled: boolean, outcome: Outcome, error?: string): void {
    const { result, differing, found, added, changed, removed } = outcome
    const names = found.map(({ key, state }) => `${key} ${state}`)
    if (!meddled) {
      log.info({ cause, added, changed, removed, found: names }, 'kernel brought to the store')
      return
    }
    log.warn(
      { cause, result, added, changed, removed, found: names },
      'somebody else changed what is ours in the kernel',
    )
    const data = { repaired: error === undefined, added, changed, removed, differing, found, ...(error && { error }) }
    const draft = { type: 'agent.drift', resource: '/api/v1/status', data }
    // Not waited for: this may run inside the pipeline, which stores it.
    parts
      .announce(system('drift'), () => [draft])
      .catch((cause: unknown) => log.error({ err: cause }, 'the event of a drift could not be stored'))
  }

  async function look(): Promise<void> {
    const [now, interval] = [clock(), intervalMs()]
    if (interval === 0 || (failure && now < failure.until)) return
    const due = failure || now - last >= interval || (waiting !== undefined && now >= waiting)
    if (!due && (now < rest || !(left || (await plane.changedByOthers())))) return
    try {
      await exclusively(() => pass('drift', 'unless contested', true))
    } finally {
      if (!due) rest = clock() + REST * (clock() - now)
    }
  }

  /** One pass of drift detection at a time, so that a change waits for one at most. */
  function alone<T>(work: () => Promise<T>): Promise<T> {
    const run = work()
    const settled = run
      .catch((error: unknown) => log.debug({ err: error }, 'a pass ended with an error'))
      .finally(() => {
        if (running === settled) running = undefined
      })
    running = settled
    return run
  }

  const drift: Drift = {
    async bring(cause, concerned) {
      try {
        await pass(cause, 'repair', false)
      } catch (error) {
        const others = error instanceof RepairRefused && concerned?.every((area) => !error.areas.has(area))
        if (!others) throw error
      }
    },
    async mend(meddled) {
      try {
        return did(await pass('repair', 'repair', meddled))
      } catch (error) {
        // It has been logged, and is tried again.
        return error instanceof RepairRefused && did(error.done)
      }
    },
    async ground(area) {
      if (failure === undefined || (failure.known && !troubles.has(area))) return
      try {
        await pass('ground', 'repair', true)
      } catch (error) {
        if (!(error instanceof RepairRefused)) throw error
        // The kernel holds the rest, and what it refuses may be just what the operator is about to change.
        failure.until = clock() + BEAT_MS
      }
    },
    async check({ dryRun }) {
      while (running) await running
      return alone(() => exclusively(() => pass('drift', dryRun ? 'show' : 'repair', true)))
    },
    async beat() {
      if (running) return
      await alone(look).catch(() => {})
    },
    start() {
      const clock = setInterval(() => void drift.beat(), BEAT_MS).unref()
      return async () => {
        clearInterval(clock)
        await running
      }
    },
  }
  return drift
}

const did = ({ added, changed, removed }: Repair): boolean => added + changed + removed > 0
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
const keyOf = ({ before, after }: Passage): string => (after ?? before)?.key ?? ''

function outcomeOf(result: Pass['result'], diff: readonly Passage[], done?: Repairs): Outcome {
  const found = diff.slice(0, MAX_NAMED).map((passage): Finding => {
    const { before, after } = passage
    const changed = before !== undefined && (after !== undefined || isFrame(before))
    return { key: keyOf(passage), state: changed ? 'changed' : after ? 'missing' : 'foreign' }
  })
  const { added = 0, changed = 0, removed = 0 } = done ?? {}
  return { result, differing: diff.length, found, added, changed, removed }
}

/** `firewall/1, firewall/2 and 5 more`. */
function named(keys: readonly string[]): string {
  const shown = keys.slice(0, 3).join(', ')
  return keys.length > 3 ? `${shown} and ${keys.length - 3} more` : shown
}
