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

/** For work in parts that others may come between: the event loop gets its turn when those have taken a slice. */
export class Pace {
  readonly #now: () => number
  #spent = 0

  /** `now`: a clock in ms. */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** A part. */
  async during<T>(part: () => Promise<T>): Promise<T> {
    const since = this.#now()
    try {
      return await part()
    } finally {
      this.#spent += this.#now() - since
    }
  }

  /** In between. */
  async rest(): Promise<void> {
    if (this.#spent < SLICE_MS) return
    this.#spent = 0
    await new Promise(setImmediate)
  }
}

/** Work that says where it may be interrupted: at each `yield`. */
export type Steps<T> = Generator<void, T>

/** Carries `steps` to their end, in slices. */
export async function stepwise<T>(steps: Steps<T>): Promise<T> {
  let since = performance.now()
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
    if (performance.now() - since < SLICE_MS) continue
    await new Promise(setImmediate)
    since = performance.now()
  }
}

/** Carries `steps` to their end in one go. */
export function atOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}
