/** Finds a short list of items that still goes wrong (Zeller & Hildebrandt, "Simplifying and Isolating Failure-Inducing Input": ddmin). */
import type { Item } from './play.ts'
import { replay } from './run.ts'

/** Tries until nothing can be left out or the time is over; a soak with a kill in it may not go wrong every time. */
export async function shorten(items: readonly Item[], ms: number): Promise<Item[]> {
  const deadline = Date.now() + ms
  let [all, parts] = [[...items], 2]
  while (all.length >= 2 && Date.now() < deadline) {
    const size = Math.ceil(all.length / parts)
    let shorter: Item[] | undefined
    for (let from = 0; from < all.length && shorter === undefined && Date.now() < deadline; from += size) {
      const rest = [...all.slice(0, from), ...all.slice(from + size)]
      if ((await replay(rest)) !== undefined) shorter = rest
    }
    if (shorter !== undefined) [all, parts] = [shorter, Math.max(2, parts - 1)]
    else if (size === 1) break
    else parts = Math.min(all.length, parts * 2)
  }
  return all
}
