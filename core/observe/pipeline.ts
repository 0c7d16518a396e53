/** What is counted of changes on their way through the pipeline (core/state/mutate.ts). */
import { ApiError } from '../errors.ts'
import type { Maker } from './maker.ts'

export type Step = 'wait' | 'ground' | 'rule' | 'difference' | 'kernel' | 'outbox' | 'cluster' | 'commit' | 'undo'

export interface PipelineCounts {
  /** Runs `work` and notes how long it took, whether it succeeded or not. */
  timed<T>(step: Step, work: () => T | Promise<T>): Promise<T>
  /** Notes that `step` took from `since`, a time of performance.now(), until now. */
  took(step: Step, since: number): void
  /** A change of `area` is durable and in the kernel. */
  done(area: string): void
  /** A change of `area` ended in `error`: refused if the answer is a 4xx, else failed. */
  undone(area: string, error: unknown): void
}

const RESULTS = ['ok', 'refused', 'failed']
/** Upper bounds, seconds. */
const BOUNDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** `areas`: who may change something, the core among them. */
export function pipelineCounts(make: Maker, areas: readonly string[]): PipelineCounts {
  const mutations = make.counter(
    'pipeline_mutations_total',
    'Changes by area and result: ok is durable and in the kernel, refused is an answer of 4xx, failed is the agent unable to carry it out.',
    ['area', 'result'],
    areas.flatMap((area) => RESULTS.map((result) => ({ area, result }))),
  )
  const steps = make.histogram(
    'pipeline_step_duration_seconds',
    'Time a change spends in each step: wait in the queue, ground (making the kernel good first), rule, difference, kernel, outbox, cluster (its members take it), commit; undo takes a failed one back.',
    BOUNDS,
    ['step'],
  )
  const took = (step: Step, since: number) => steps.observe({ step }, (performance.now() - since) / 1000)
  return {
    async timed(step, work) {
      const since = performance.now()
      try {
        return await work()
      } finally {
        took(step, since)
      }
    },
    took,
    done: (area) => mutations.inc({ area, result: 'ok' }),
    undone(area, error) {
      const refused = error instanceof ApiError && error.status < 500
      mutations.inc({ area, result: refused ? 'refused' : 'failed' })
    },
  }
}
