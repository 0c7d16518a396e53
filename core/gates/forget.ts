/** Between two looks through a table, in ms. */
const EVERY_MS = 60_000

/**
 * Forgets the entries of a table that say nothing any more, so that a crowd of addresses leaves no memory behind. To be
 * called with the time, in ms, at every use of the table: looks through it once a minute and returns at once otherwise.
 */
export function forgetting<T>(table: Map<string, T>, isOver: (entry: T, time: number) => boolean) {
  let looked = 0
  return (time: number): void => {
    // A clock that was set back must not put off the next look.
    if (Math.abs(time - looked) < EVERY_MS) return
    looked = time
    for (const [key, entry] of table) if (isOver(entry, time)) table.delete(key)
  }
}
