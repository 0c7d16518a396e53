/** The statements of NAT, prepared once per connection. */
import { and, asc, count, eq, gt, gte, inArray, lte, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { pending, type Row, rules } from './tables.ts'

export const FORWARD = 'port_forward'
export const SNAT = 'snat'
const given = sql.placeholder
// Written out, because SQLite takes a partial index only where it can see that the query is within.
const isForward = sql`${rules.type} = 'port_forward'`
const isSnat = sql`${rules.type} = 'snat'`

export const queries = prepared((db) => ({
  byId: db
    .select()
    .from(rules)
    .where(eq(rules.id, given('id')))
    .prepare(),
  page: db
    .select()
    .from(rules)
    .where(gt(rules.id, given('after')))
    .orderBy(asc(rules.id))
    .limit(PAGE)
    .prepare(),
  forwardPage: db
    .select()
    .from(rules)
    .where(and(isForward, gt(rules.id, given('after'))))
    .orderBy(asc(rules.id))
    .limit(PAGE)
    .prepare(),
  forwardTo: db
    .select()
    .from(rules)
    .where(and(isForward, eq(rules.destIp, given('destIp')), eq(rules.destPort, given('destPort'))))
    .prepare(),
  snatOf: db
    .select()
    .from(rules)
    .where(and(isSnat, eq(rules.interface, given('interface')), eq(rules.cidr, given('cidr'))))
    .prepare(),
  /** The block itself and all in it. */
  snatWithin: db
    .select()
    .from(rules)
    .where(
      and(
        isSnat,
        eq(rules.interface, given('interface')),
        gte(rules.first, given('first')),
        lte(rules.first, given('last')),
        lte(rules.last, given('last')),
      ),
    )
    .prepare(),
  /** `cidrs`: a JSON array. */
  snatAmong: db
    .select({ id: rules.id })
    .from(rules)
    .where(
      and(
        isSnat,
        eq(rules.interface, given('interface')),
        inArray(rules.cidr, sql`(select value from json_each(${given('cidrs')}))`),
      ),
    )
    .limit(1)
    .prepare(),
  count: db.select({ many: count() }).from(rules).prepare(),
  counts: db.select({ type: rules.type, many: count() }).from(rules).groupBy(rules.type).prepare(),
  remove: db
    .delete(rules)
    .where(eq(rules.id, given('id')))
    .prepare(),
  pending: db.select().from(pending).orderBy(asc(pending.id)).limit(given('limit')).prepare(),
  pendingCount: db.select({ many: count() }).from(pending).prepare(),
}))

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
