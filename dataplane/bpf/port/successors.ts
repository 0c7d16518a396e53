/**
 * Which devices of br-work have the ifindex of an earlier one, as a device may that comes from another namespace: it keeps
 * its ifindex where that is free. Of the earlier one a port may have its row, and endpoints may be there, long after it went.
 */
export class Successors {
  /** Devices that went since the last look. Another may have their ifindex by now. */
  #gone = new Set<number>()
  /** All that went since is in `#gone`. */
  #hears = false
  /** Of ports that have gone, at which endpoints may be still: a number for each is little. */
  readonly #former = new Set<number>()
  /** Told of at the last look. Unless all is done for them, they are told of again. */
  #told: ReadonlySet<number> = new Set()
  /** Of all devices at the last look. */
  #there: ReadonlySet<number> = new Set()

  gone(ifindex: number): void {
    this.#gone.add(ifindex)
  }

  /** Others may have gone. */
  deaf(): void {
    this.#hears = false
  }

  /** Endpoints are at ports of these ifindexes, which may have gone while an earlier agent ran. */
  homes(homes: Iterable<number>): void {
    for (const ifindex of homes) if (!this.#there.has(ifindex)) this.#former.add(ifindex)
  }

  /** Forgets those of which it tells, after `done`. What went while nobody heard it has left no program. */
  take({ wanted, before, there, rows, attached }: Look): ReadonlySet<number> {
    const [gone, hears] = [this.#gone, this.#hears]
    this.#gone = new Set()
    this.#hears = true
    this.#there = there
    for (const ifindex of before) if (gone.has(ifindex) || !there.has(ifindex)) this.#former.add(ifindex)
    const isOther = (ifindex: number) =>
      this.#told.has(ifindex) ||
      this.#former.delete(ifindex) ||
      (gone.has(ifindex) && rows.has(ifindex)) ||
      !(hears || attached.has(ifindex))
    this.#told = new Set([...wanted].filter(isOther))
    return this.#told
  }

  /** Nobody is any more at those of which it told last. */
  done(): void {
    this.#told = new Set()
  }
}

/** By ifindex. */
interface Look {
  /** What is on br-work now, and what was guarded there before. */
  wanted: Iterable<number>
  before: Iterable<number>
  /** All devices. */
  there: ReadonlySet<number>
  /** Ports that have a row. */
  rows: ReadonlySet<number>
  /** Devices that have a program of ours. */
  attached: ReadonlySet<number>
}
