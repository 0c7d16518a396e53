/** One at a time, in the order in which they were asked for: everything that changes the store or the kernel. */

export interface Queue {
  /** Runs `work` once all that was asked for before has ended, however it ended. */
  exclusively<T>(work: () => Promise<T>): Promise<T>
  /** How many run or wait. */
  depth(): number
}

export function openQueue(): Queue {
  let tail: Promise<unknown> = Promise.resolve()
  let depth = 0
  return {
    exclusively(work) {
      depth++
      const run = tail.then(work).finally(() => void depth--)
      tail = run.catch(() => {})
      return run
    },
    depth: () => depth,
  }
}
