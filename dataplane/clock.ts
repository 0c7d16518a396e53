/** Clocks of the kernel that Node does not read. */
import koffi from 'koffi'

const libc = koffi.load(null)
const clockGettime: (clock: number, time: BigInt64Array) => number = libc.func(
  'int clock_gettime(int clock, void *time)',
)

/** linux/time.h */
const CLOCK_REALTIME = 0
const CLOCK_MONOTONIC = 1
const CLOCK_TAI = 11

/** By how much international atomic time leads UTC on this node, in ns and to the second: 0 where nobody has set it. */
export function clockLead(): bigint {
  const lead = read(CLOCK_TAI) - read(CLOCK_REALTIME)
  return ((lead + 500_000_000n) / 1_000_000_000n) * 1_000_000_000n
}

/** A clock that was set by less is taken for one that was read late. */
const SET_MS = 100

/**
 * Returns what answers at which Unix time, in whole ms, CLOCK_MONOTONIC was 0. The answer is the same until somebody sets
 * the clock, so that what is reckoned by it does not move from one reading to the next. `read`: see {@link monotonicStart}.
 */
export function steadyStart(read: () => number = monotonicStart): () => number {
  let held = Number.NaN
  return () => {
    const now = read()
    if (!(Math.abs(now - held) < SET_MS)) held = now
    return held
  }
}

/** The same, read anew: another ms whenever this process was interrupted between its two clocks. */
function monotonicStart(): number {
  return Math.round(Number(read(CLOCK_REALTIME) - read(CLOCK_MONOTONIC)) / 1e6)
}

function read(clock: number): bigint {
  const time = new BigInt64Array(2)
  clockGettime(clock, time)
  return (time[0] ?? 0n) * 1_000_000_000n + (time[1] ?? 0n)
}
