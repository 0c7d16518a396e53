/** Time that passes when a test says so. */
import type { Timers } from '../timers.ts'

export interface ManualTimers extends Timers {
  /** Moves on by `ms`, and calls what becomes due, each at its time. */
  advance(ms: number): void
}

export function manualTimers(): ManualTimers {
  const due = new Map<number, { at: number; work: () => void }>()
  let [time, made] = [0, 0]
  return {
    now: () => time,
    after(ms, work) {
      const id = ++made
      due.set(id, { at: time + ms, work })
      return () => void due.delete(id)
    },
    advance(ms) {
      const end = time + ms
      for (;;) {
        const [first] = [...due].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)
        if (first === undefined) break
        const [id, { at, work }] = first
        due.delete(id)
        time = Math.max(time, at)
        work()
      }
      time = end
    },
  }
}
