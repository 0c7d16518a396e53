/** Clocks of the kernel that Node does not read. */
import koffi from 'koffi'

const libc = koffi.load(null)
const clockGettime: (clock: number, time: BigInt64Array) => number = libc.func(
  'int clock_gettime(int clock, void *time)',
)

/** linux/time.h */
const CLOCK_REALTIME = 0
const CLOCK_TAI = 11

/** By how much international atomic time leads UTC on this node, in ns and to the second: 0 where nobody has set it. */
export function clockLead(): bigint {
  const lead = read(CLOCK_TAI) - read(CLOCK_REALTIME)
  return ((lead + 500_000_000n) / 1_000_000_000n) * 1_000_000_000n
}

function read(clock: number): bigint {
  const time = new BigInt64Array(2)
  clockGettime(clock, time)
  return (time[0] ?? 0n) * 1_000_000_000n + (time[1] ?? 0n)
}
