/** The statements of the firewall, prepared once per connection. */
import { asc, count, eq, getTableColumns, gt, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { rankOf } from './refs.ts'
import { pending, type Row, rules, settings } from './tables.ts'

const { levelRank: _, ...row } = getTableColumns(rules)
const { id: __, ...columns } = row
const placeholders = Object.fromEntries(
  Object.keys(columns).map((name) => [name, sql.placeholder(name)]),
) as unknown as Omit<Row, 'id'>

export const queries = prepared((db) => ({
  byId: db
    .select(row)
    .from(rules)
    .where(eq(rules.id, sql.placeholder('id')))
    .prepare(),
  page: db
    .select(row)
    .from(rules)
    .where(gt(rules.id, sql.placeholder('after')))
    .orderBy(asc(rules.id))
    .limit(PAGE)
    .prepare(),
  /** In the order in which packets meet the rules (D66), after the rule of a rank. */
  ranked: db
    .select(row)
    .from(rules)
    .where(
      sql`(${rules.levelRank}, ${rules.priority}, ${rules.tie}) > (${sql.placeholder('level')}, ${sql.placeholder('priority')}, ${sql.placeholder('tie')})`,
    )
    .orderBy(asc(rules.levelRank), asc(rules.priority), asc(rules.tie))
    .limit(PAGE)
    .prepare(),
  insert: db.insert(rules).values(placeholders).prepare(),
  setTie: db
    .update(rules)
    .set({ tie: sql`id` })
    .where(eq(rules.id, sql.placeholder('id')))
    .prepare(),
  remove: db
    .delete(rules)
    .where(eq(rules.id, sql.placeholder('id')))
    .prepare(),
  setting: db
    .select()
    .from(settings)
    .where(eq(settings.name, sql.placeholder('name')))
    .prepare(),
  /** By an index that covers it, so that it takes 2 ms for 16,384 rules. */
  kinds: db
    .select({ action: rules.action, level: rules.level, rules: count() })
    .from(rules)
    .groupBy(rules.action, rules.level)
    .prepare(),
  scheduledCount: db.select({ rules: count() }).from(rules).where(gt(rules.scheduleFrom, '')).prepare(),
  pendingCount: db.select({ rules: count() }).from(pending).prepare(),
  scheduled: db.select(row).from(rules).where(gt(rules.scheduleFrom, '')).prepare(),
  addPending: db
    .insert(pending)
    .values({ rule: sql.placeholder('rule') })
    .onConflictDoNothing()
    .prepare(),
  isPending: db
    .select()
    .from(pending)
    .where(eq(pending.rule, sql.placeholder('rule')))
    .prepare(),
  removePending: db
    .delete(pending)
    .where(eq(pending.rule, sql.placeholder('rule')))
    .prepare(),
  pendingRules: db
    .select(row)
    .from(pending)
    .innerJoin(rules, eq(rules.id, pending.rule))
    .where(gt(pending.rule, sql.placeholder('after')))
    .orderBy(asc(pending.rule))
    .limit(sql.placeholder('limit'))
    .prepare(),
}))

export const defaultAction = (db: Db): 'allow' | 'deny' =>
  queries(db).setting.get({ name: 'default_action' })?.value === 'deny' ? 'deny' : 'allow'

/** The first `most` new drops whose connections are not ended yet; page by page, as everyRule. */
export function* everyPending(db: Db, most: number): Generator<Row> {
  for (let [after, left] = [0, most]; left > 0; ) {
    const page = queries(db).pendingRules.all({ after, limit: Math.min(PAGE, left) })
    yield* page
    after = page.at(-1)?.id ?? after
    left = page.length < PAGE ? 0 : left - page.length
  }
}

/** A page of the rules in the order in which packets meet them, behind `last`. */
export function rankedPage(db: Db, last: Row | undefined): Row[] {
  const [level, priority, tie] = last === undefined ? FIRST : rankOf(last)
  return queries(db).ranked.all({ level, priority, tie })
}
/** Before every rule. */
const FIRST = [-2, 0, 0] as const

/** Page by page, so that no statement stays open while the caller yields. */
export function* everyRule(db: Db): Generator<Row> {
  for (let after = 0; ; ) {
    const page = queries(db).page.all({ after })
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) return
    after = last.id
  }
}
