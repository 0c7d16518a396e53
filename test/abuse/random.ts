import { SEED } from '../seed.ts'

export interface Dice {
  /** In [0, 1). */
  next(): number
  /** A whole number, both bounds included. */
  between(least: number, most: number): number
}

/** Small, seedable, good enough to pick moments (Steele & Vigna's splitmix32). */
export function dice(seed = SEED): Dice {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return ((z ^ (z >>> 15)) >>> 0) / 2 ** 32
  }
  return { next, between: (least, most) => least + Math.floor(next() * (most - least + 1)) }
}
