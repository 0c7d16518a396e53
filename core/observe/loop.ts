import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Between two looks at the clock, ms. Each costs some 80 µs, on an idle node too: with 10 ms that would be 0.8 % of a core. */
const RESOLUTION_MS = 100

export interface EventLoop {
  /** The 99th percentile of the delays since this was last asked, seconds. */
  delay(): number
  close(): void
}

/** Watches how late timers run: for that long nothing else was answered either. */
export function watchEventLoop(): EventLoop {
  const intervals = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  intervals.enable()
  return {
    delay() {
      // The histogram holds the times between two looks, in ns; it holds none right after the last question.
      const late = intervals.count === 0 ? 0 : intervals.percentile(99) / 1e6 - RESOLUTION_MS
      intervals.reset()
      return Math.max(0, late) / 1000
    },
    close: () => void intervals.disable(),
  }
}
