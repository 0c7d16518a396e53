/** Domain rules of policy rules: which packets look up which table. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, limitReached, notFound } from '../../core/errors.ts'
import { STAMP, STAMP_MASK } from '../../dataplane/numbers.ts'
import { ruleEntries, ruleRef } from './desired.ts'
import { readBlock, readId, shown, usable } from './input.ts'
import { queries } from './queries.ts'
import type { Rule, RuleInput } from './schemas.ts'
import { type RuleRow, rules } from './tables.ts'

/** Where rules without a priority go: before the kernel's own for the main table (32766), with room in front. */
const FIRST_PRIORITY = 10_000
const resource = (id: number) => `/api/v1/routes/rules/${id}`

/** Reads and checks what a schema cannot. Throws a 400 naming the field. */
export function readRule(input: RuleInput): Omit<RuleRow, 'id' | 'priority'> {
  const [from, to] = [readBlock(input.from ?? '', 'from'), readBlock(input.to ?? '', 'to')]
  if (from && to && from.family !== to.family) throw badRequest('from, to: must be of the same address family')
  const { fwmark = 0, iif = '', oif = '' } = input
  if (!from && !to && fwmark === 0 && iif === '' && oif === '') {
    throw badRequest('from, to, fwmark, iif, oif: at least one is required')
  }
  if (isStamp(fwmark)) throw badRequest('fwmark: marks of workload frames; match those by iif and from')
  return { from: from?.text ?? '', to: to?.text ?? '', fwmark, iif, oif, table: usable(input.table) }
}

export function createRule(tx: Db, input: RuleInput, max: number): Change<{ status: 'created'; rule: Rule }> {
  const row = { ...readRule(input), priority: input.priority ?? freePriority(tx) }
  const keys = new Set(ruleEntries(row).map(({ key }) => key))
  const others = queries(tx).rulesAt.all({ priority: row.priority })
  const same = others.find((other) => ruleEntries(other).some(({ key }) => keys.has(key)))
  if (same) throw alreadyExists(`policy rule ${same.id} with this priority, match and table`)
  if ((queries(tx).ruleCount.get()?.count ?? 0) >= max) throw limitReached('policy rules', max)
  const rule = tx.insert(rules).values(row).returning().get()
  return {
    result: { status: 'created', rule },
    touch: [ruleRef(rule.id)],
    events: [{ type: 'policy_rule.created', resource: resource(rule.id), data: rule }],
  }
}

export function deleteRule(tx: Db, path: string): Change<{ status: 'deleted'; id: number }> {
  const id = readId(path)
  if (tx.delete(rules).where(eq(rules.id, id)).run().changes === 0) throw notFound('policy rule', shown(path))
  return {
    result: { status: 'deleted', id },
    touch: [ruleRef(id)],
    events: [{ type: 'policy_rule.deleted', resource: resource(id), data: { id } }],
  }
}

/** The marks of frames from br-work are the node's own: the number of a network in them may be another one tomorrow. */
const isStamp = (mark: number): boolean => (mark & STAMP_MASK) >>> 0 === STAMP

/** The lowest from FIRST_PRIORITY on that no rule has (D60). */
function freePriority(db: Db): number {
  const taken = queries(db).prioritiesFrom.all({ first: FIRST_PRIORITY })
  const gap = taken.findIndex(({ priority }, at) => priority !== FIRST_PRIORITY + at)
  return FIRST_PRIORITY + (gap < 0 ? taken.length : gap)
}
