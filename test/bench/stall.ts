/** How long the event loop of this process stands still. */
import { readFileSync } from 'node:fs'

/**
 * The longest CPU time, in ms, that this thread spent between two turns of a timer of 1 ms, until the returned function is
 * called. Not by the clock: what another process does meanwhile is no stall of ours.
 */
export function watchStalls(): () => Promise<number> {
  let [last, longest] = [threadCpu(), 0]
  const look = () => {
    const now = threadCpu()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  return async () => {
    await new Promise((resolve) => setTimeout(resolve, 5))
    clearInterval(timer)
    return longest
  }
}

/** CPU time of the main thread, ms: the first field of schedstat is in ns. */
const threadCpu = () =>
  Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1_000_000
