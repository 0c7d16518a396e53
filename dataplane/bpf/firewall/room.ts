/**
 * Which cells of an arena are free. Cells are given out in blocks of a power of two that begin at a multiple of their
 * size: no gap is too small, and no small block lies in two pages.
 */

/** There is no room for a change; with a larger arena for `family` there may be. */
export class NoRoom extends Error {
  override readonly name = 'NoRoom'
  readonly family: 4 | 6 | undefined

  constructor(message: string, family?: 4 | 6) {
    super(message)
    this.family = family
  }
}

export class Room {
  readonly #family: 4 | 6
  readonly #end: number
  #next: number
  /** By exponent: free blocks of that size. */
  readonly #free: number[][] = Array.from({ length: 25 }, () => [])
  #used = 0
  /** Of each cell at which a block begins that was claimed: the exponent of its size, and one more. */
  #claims: Uint8Array | undefined

  /** The cells from `first` to before `end` of a family's arena. */
  constructor(family: 4 | 6, first: number, end: number) {
    this.#family = family
    this.#next = first
    this.#end = end
  }

  /** Cells that are given out. */
  get used(): number {
    return this.#used
  }

  /** The first of `count` cells in a row. @throws NoRoom */
  take(count: number): number {
    const size = exponent(count)
    const block = this.#free[size]?.pop() ?? this.#split(size) ?? this.#fresh(size)
    this.#used += 1 << size
    return block
  }

  /** `count` as when it was taken. */
  give(first: number, count: number): void {
    const size = exponent(count)
    this.#used -= 1 << size
    this.#free[size]?.push(first)
  }

  /** These cells are in use: as they were taken by somebody who knew before. `settle` follows, before anything is taken. */
  claim(first: number, count: number): void {
    this.#claims ??= new Uint8Array(this.#end)
    this.#claims[first] = 1 + exponent(count)
  }

  /** All that was not claimed is free. */
  settle(): void {
    const claims = this.#claims ?? new Uint8Array(0)
    this.#claims = undefined
    let at = this.#next
    for (let first = at; first < claims.length; first++) {
      const claim = claims[first] ?? 0
      if (claim === 0) continue
      this.#spare(at, first)
      const size = 1 << (claim - 1)
      this.#used += size
      at = Math.max(at, first + size)
    }
    this.#next = at
  }

  /** Cells from `from` to before `to` are free. */
  #spare(from: number, to: number): void {
    for (let at = from; at < to; ) {
      const size = Math.min(31 - Math.clz32(to - at), trailingZeros(at))
      this.#free[size]?.push(at)
      at += 1 << size
    }
  }

  #split(size: number): number | undefined {
    for (let larger = size + 1; larger < this.#free.length; larger++) {
      const block = this.#free[larger]?.pop()
      if (block === undefined) continue
      for (let half = larger - 1; half >= size; half--) this.#free[half]?.push(block + (1 << half))
      return block
    }
    return undefined
  }

  #fresh(size: number): number {
    const first = Math.ceil(this.#next / (1 << size)) * (1 << size)
    if (first + (1 << size) > this.#end) throw new NoRoom('no room is left for rules', this.#family)
    this.#spare(this.#next, first)
    this.#next = first + (1 << size)
    return first
  }
}

/** Exponent of the smallest power of two that is not below `count`, which is above 0. */
const exponent = (count: number): number => 32 - Math.clz32(count - 1)

/** How often a number above 0 can be halved. */
const trailingZeros = (value: number): number => 31 - Math.clz32(value & -value)
