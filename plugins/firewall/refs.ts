/** Refs of the area: `rule/<id>`, `default`, `established`; and the order in which packets meet the rules. */
import { LEVELS } from './schemas.ts'
import type { Row } from './tables.ts'

export const ruleRef = (id: number) => ({ area: 'firewall', id: `rule/${id}` })
export const defaultRef = { area: 'firewall', id: 'default' }
/** What new drops change for the connections that stand. */
export const establishedRef = { area: 'firewall', id: 'established' }

/** Number of the rule that a ref names. */
export const idOf = (ref: string): number => Number(ref.slice('rule/'.length))

export type Rank = [level: number, priority: number, tie: number]

/** Levels broadest first, then priority ascending, then id ascending (D66). */
export function rankOf(row: Pick<Row, 'level' | 'priority' | 'tie'>): Rank {
  return [(LEVELS as readonly string[]).indexOf(row.level), row.priority, row.tie]
}

export function compareRanks(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index])
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0)
}
