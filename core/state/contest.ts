/**
 * Somebody else and the agent change the same objects again and again. Each is repaired still, but later and later: every
 * time an object had to be repaired anew its next repair waits twice as long. Others do not wait for it.
 */

const MAX_PAUSE_S = 300
/** An object that nobody changed for so long, or for twice its pause, begins anew. */
const QUIET_MS = 10_000

/** The pause before the next attempt after `count` in a row, ms: 1 s, 2 s, 4 s … 5 min. */
export const pauseMs = (count: number): number => Math.min(2 ** (count - 1), MAX_PAUSE_S) * 1000

export interface Contest {
  /** When one of these may be repaired, if it is too early for all of them; to be asked when they were found changed. */
  waits(keys: readonly string[]): number | undefined
  /** Tells that these were repaired, after somebody else had changed them. */
  repaired(keys: readonly string[]): void
}

interface Bout {
  /** Repairs in a row. */
  count: number
  until: number
  /** When it was last found changed. */
  last: number
}

/** Times are those of `clock`, in ms, which never goes back. */
export function openContest(clock: () => number): Contest {
  const bouts = new Map<string, Bout>()
  const over = ({ count, last }: Bout, now: number) => now - last > Math.max(QUIET_MS, 2 * pauseMs(count))

  return {
    waits(keys) {
      const now = clock()
      const untils = keys.map((key) => bouts.get(key)?.until ?? 0)
      const first = untils.reduce((least, until) => Math.min(least, until), Number.POSITIVE_INFINITY)
      if (keys.length === 0 || first <= now) return undefined
      for (const key of keys) {
        const bout = bouts.get(key)
        if (bout) bout.last = now
      }
      return first
    },
    repaired(keys) {
      const now = clock()
      for (const [key, bout] of bouts) if (over(bout, now)) bouts.delete(key)
      for (const key of keys) {
        const count = (bouts.get(key)?.count ?? 0) + 1
        bouts.set(key, { count, until: now + pauseMs(count), last: now })
      }
    },
  }
}
