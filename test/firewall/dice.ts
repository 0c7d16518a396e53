/** Draws by a seed: the same seed makes the same rules and packets. */
import { chance } from '../chance.ts'

export interface Dice {
  /** True with this probability. */
  maybe(probability: number): boolean
  /** From `low` to `high`, both included. */
  between(low: number, high: number): number
  /** One of them; throws RangeError when there is none. */
  pick<T>(from: readonly T[]): T
  /** One of them by weight. */
  weighed<T>(from: readonly (readonly [T, number])[]): T
}

export function dice(seed: number): Dice {
  const draw = chance(seed)
  const between = (low: number, high: number) => low + Math.floor(draw() * (high - low + 1))
  return {
    maybe: (probability) => draw() < probability,
    between,
    pick<T>(from: readonly T[]): T {
      if (from.length === 0) throw new RangeError('there is nothing to pick from')
      return from[between(0, from.length - 1)] as T
    },
    weighed<T>(from: readonly (readonly [T, number])[]): T {
      let left = draw() * from.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [one, weight] of from) {
        left -= weight
        if (left < 0) return one
      }
      throw new RangeError('there is nothing to pick from')
    },
  }
}
