/** What a row of results says of a backend. Pure. */
import type { BackendRow } from '../tables.ts'

/** Results of one kind since the last of the other. */
export interface Streak {
  good: number
  bad: number
}
export const NO_STREAK: Streak = { good: 0, bad: 0 }

export const longer = ({ good, bad }: Streak, ok: boolean): Streak =>
  ok ? { good: good + 1, bad: 0 } : { good: 0, bad: bad + 1 }

/** Whether the backend is healthy from now on; undefined where nothing is decided. `streak` has the last result in it. */
export function judge(
  { state, settling }: Pick<BackendRow, 'state' | 'settling'>,
  { good, bad }: Streak,
  threshold: number,
): boolean | undefined {
  if (settling === 'override') return good > 0
  if (state === 'up') return bad >= threshold ? false : undefined
  return good >= (settling === 'new' ? 1 : threshold) ? true : undefined
}
