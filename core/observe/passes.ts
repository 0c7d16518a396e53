/** What is counted of the passes that bring the kernel to the store (core/state/reconcile.ts). */
import type { Repair } from '../state/reconcile.ts'
import type { Maker } from './maker.ts'

const CAUSES = ['boot', 'ground', 'repair', 'configuration', 'drift'] as const
const RESULTS = ['clean', 'repaired', 'failed', 'deferred'] as const

export type PassCause = (typeof CAUSES)[number]

/** One comparison of the kernel with the store. */
export interface Pass {
  /**
   * `boot`: the first of an agent; `ground`: before a change, because the last pass failed; `repair`: after a change that
   * could not be undone or that the kernel refused; `configuration`: a setting that areas render from; `drift`: in time.
   */
  cause: PassCause
  /** `clean`: nothing differed; `deferred`: something did, and is left for a later pass. */
  result: (typeof RESULTS)[number]
  seconds: number
  /** What was repaired, by area. */
  repaired?: Readonly<Record<string, Repair>>
}

/** Upper bounds, seconds. */
const BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60]

/** Returns what notes a pass that has ended. */
export function passCounts(make: Maker, now: () => Date): (pass: Pass) => void {
  const passes = make.counter(
    'reconcile_passes_total',
    'Comparisons of the kernel with the store, by cause and result: clean, repaired, failed, or deferred (left for a later one).',
    ['cause', 'result'],
    CAUSES.flatMap((cause) => RESULTS.map((result) => ({ cause, result }))),
  )
  const repairs = make.counter(
    'reconcile_repaired_total',
    'Kernel objects that such passes added, changed or removed, by area. After boot an increase means that somebody else changes them.',
    ['area', 'change'],
  )
  const duration = make.histogram('reconcile_duration_seconds', 'Time such a pass took.', BOUNDS)
  const last = make.gauge(
    'reconcile_last_pass_timestamp_seconds',
    'When the last pass ended that left the kernel as the store has it, Unix time; 0 before the first.',
  )
  const pending = make.gauge(
    'reconcile_pending',
    '1 while the kernel is known to differ from the store and a repair is due, else 0.',
  )
  return ({ cause, result, seconds, repaired = {} }) => {
    passes.inc({ cause, result })
    duration.observe(seconds)
    for (const [area, counts] of Object.entries(repaired)) {
      const { added, changed, removed } = counts
      for (const [change, count] of Object.entries({ added, changed, removed })) repairs.inc({ area, change }, count)
    }
    const good = result === 'clean' || result === 'repaired'
    pending.set(good ? 0 : 1)
    if (good) last.set(now().getTime() / 1000)
  }
}
