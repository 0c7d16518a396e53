/** Time as it is waited for. Tests bring their own. */
export interface Timers {
  /** Milliseconds that never go back. */
  now(): number
  /** Calls `work` once, `ms` from now; returns how to keep it from that. */
  after(ms: number, work: () => void): () => void
}

export const TIMERS: Timers = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms).unref()
    return () => clearTimeout(timer)
  },
}
