import { chance } from '../chance.ts'

/** All that is left to chance, by one seed. */
export class Dice {
  readonly #next: () => number

  constructor(seed: number) {
    this.#next = chance(seed)
  }

  share(): number {
    return this.#next()
  }

  chance(share: number): boolean {
    return this.#next() < share
  }

  below(end: number): number {
    return Math.floor(this.#next() * end)
  }

  pick<T>(list: readonly T[]): T {
    const found = list[this.below(list.length)]
    if (found === undefined) throw new RangeError('nothing to pick from')
    return found
  }
}
