/**
 * Which slots are free. A program that has read a row may go on to its slot a moment after the row is gone, so a slot
 * rests before somebody else gets it.
 */

/** Far longer than any program runs. */
const REST_MS = 1000

export class SlotPool {
  readonly #size: number
  readonly #now: () => number
  /** No slot from here on was ever given out. */
  #fresh = 0
  /** Given back, the longest ago first. */
  #resting: { slot: number; since: number }[] = []

  constructor(size: number, now: () => number = () => performance.now()) {
    this.#size = size
    this.#now = now
  }

  /** Begins anew with the slots that are in use. */
  adopt(used: ReadonlySet<number>): void {
    this.#fresh = 0
    for (const slot of used) this.#fresh = Math.max(this.#fresh, slot + 1)
    this.#resting = []
    const since = this.#now()
    for (let slot = 0; slot < this.#fresh; slot++) if (!used.has(slot)) this.#resting.push({ slot, since })
  }

  /** No slot from this one on was ever given out. */
  get end(): number {
    return this.#fresh
  }

  /** Undefined when all are in use, or were a moment ago. */
  take(): number | undefined {
    const [oldest] = this.#resting
    if (oldest === undefined || this.#now() - oldest.since < REST_MS) {
      return this.#fresh < this.#size ? this.#fresh++ : undefined
    }
    this.#resting.shift()
    return oldest.slot
  }

  give(slot: number): void {
    this.#resting.push({ slot, since: this.#now() })
  }
}
