/** One after another: what `work` does with a connection must not be mixed with what others do. */
export function openTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  let tail: Promise<unknown> = Promise.resolve()
  return (work) => {
    const run = tail.then(work)
    tail = run.catch(() => {})
    return run
  }
}
