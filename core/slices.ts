/** Long work on the event loop, in slices: nobody else waits longer than about SLICE_MS. */
const SLICE_MS = 5

/** Calls `work` for each item in order, and gives the event loop its turn in between when a slice is over. */
export async function inSlices<T>(items: Iterable<T>, work: (item: T) => unknown): Promise<void> {
  let since = performance.now()
  for (const item of items) {
    const pending = work(item)
    if (pending instanceof Promise) await pending
    if (performance.now() - since < SLICE_MS) continue
    await new Promise(setImmediate)
    since = performance.now()
  }
}
