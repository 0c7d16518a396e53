/** Changes by a seed, one after the other: who knows the number of a change knows all rules behind it. */
import { dice } from '../../../../test/firewall/dice.ts'
import { mixed } from '../../../../test/firewall/rulesets.ts'
import type { FilterChange } from '../classifier.ts'
import type { FilterRule } from '../entries.ts'

/** Mostly small, sometimes so many that tables are planned for them. */
const MANY = 280

export class Steps {
  readonly #pool: readonly FilterRule[]
  readonly #seed: number
  held: ReadonlyMap<number, FilterRule> = new Map()
  /** How many changes were made. */
  step = 0

  constructor(seed: number, step = 0) {
    this.#seed = seed
    this.#pool = mixed(800, seed)
    while (this.step < step) this.next()
  }

  /** Everything that some change speaks of. */
  get pool(): readonly FilterRule[] {
    return this.#pool
  }

  /** The next change; `held` is what stands behind it. */
  next(): FilterChange[] {
    const draw = dice(this.#seed * 100_003 + ++this.step)
    const held = new Map(this.held)
    const changed = new Set<number>()
    const changes: FilterChange[] = []
    for (let left = draw.maybe(0.08) ? MANY : draw.between(1, 12); left > 0; left--) {
      const rule = draw.pick(this.#pool)
      const before = held.get(rule.id)
      const goes = draw.maybe(0.4)
      if (changed.has(rule.id) || (goes && !before)) continue
      changed.add(rule.id)
      const after = { ...rule, accept: draw.maybe(0.5) }
      if (goes) held.delete(rule.id)
      else held.set(rule.id, after)
      changes.push({ ...(before && { before }), ...(!goes && { after }) })
    }
    this.held = held
    return changes
  }
}
