import type { Outbox } from './events.ts'

/** More answers than this are not kept: then it begins anew. */
const MAX_KEPT = 10_000

/**
 * Remembers what `load` made of a key until the next commit. Reading one row from SQLite costs as much as the rest of a
 * small answer, and between two commits it cannot have changed: the pipeline is the only writer.
 */
export function untilCommit<T>(outbox: Outbox, load: (key: string) => T): (key: string) => T {
  const kept = new Map<string, T>()
  outbox.onWake(() => kept.clear())
  return (key) => {
    const known = kept.get(key)
    if (known !== undefined) return known
    const loaded = load(key)
    if (kept.size >= MAX_KEPT) kept.clear()
    kept.set(key, loaded)
    return loaded
  }
}
