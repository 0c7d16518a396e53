/** The 95th percentile (D92): the largest sample that is left when the top 5 % are discarded. Pure. */
import { SLOT_MS } from './keys.ts'

/**
 * Nearest rank of `count` samples, of which `values[0 … length - 1]` are those that may be above 0; the others are 0.
 * Reorders `values`. 0 when there are no samples.
 */
export function percentile95(values: Float64Array, length: number, count: number): number {
  const discarded = Math.floor(count / 20)
  return discarded < length ? largest(values, length, discarded) : 0
}

/** Megabits a second of so many kB in a slot, to the bit. */
export const mbps = (kilobytes: number): number => Math.round((kilobytes * 1000 * 8 * 1000) / SLOT_MS) / 1e6

/** The value before which exactly `rank` others stand in descending order: Hoare's selection. */
function largest(values: Float64Array, length: number, rank: number): number {
  let [low, high] = [0, length - 1]
  while (low < high) {
    const pivot = values[(low + high) >>> 1] ?? 0
    let [i, j] = [low, high]
    while (i <= j) {
      while ((values[i] ?? 0) > pivot) i++
      while ((values[j] ?? 0) < pivot) j--
      if (i > j) break
      const held = values[i] ?? 0
      values[i++] = values[j] ?? 0
      values[j--] = held
    }
    if (rank <= j) high = j
    else if (rank >= i) low = i
    else return values[rank] ?? 0
  }
  return values[rank] ?? 0
}
