/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, gt, gte, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { routes, rules } from './tables.ts'

const { placeholder } = sql
const afterLast = gt(routes.id, placeholder('after'))

export const queries = prepared((db) => ({
  route: db
    .select()
    .from(routes)
    .where(eq(routes.id, placeholder('id')))
    .prepare(),
  routePage: db.select().from(routes).where(afterLast).orderBy(asc(routes.id)).limit(PAGE).prepare(),
  routePageOfTable: db
    .select()
    .from(routes)
    .where(and(eq(routes.table, placeholder('table')), afterLast))
    .orderBy(asc(routes.id))
    .limit(PAGE)
    .prepare(),
  allRoutes: db.select().from(routes).prepare(),
  routeInPlace: db
    .select({ id: routes.id })
    .from(routes)
    .where(
      and(
        eq(routes.destination, placeholder('destination')),
        eq(routes.table, placeholder('table')),
        eq(routes.metric, placeholder('metric')),
      ),
    )
    .prepare(),
  routeCount: db.select({ count: count() }).from(routes).prepare(),
  rule: db
    .select()
    .from(rules)
    .where(eq(rules.id, placeholder('id')))
    .prepare(),
  /** In the order in which packets meet them. */
  allRules: db.select().from(rules).orderBy(asc(rules.priority), asc(rules.id)).prepare(),
  rulesAt: db
    .select()
    .from(rules)
    .where(eq(rules.priority, placeholder('priority')))
    .prepare(),
  prioritiesFrom: db
    .selectDistinct({ priority: rules.priority })
    .from(rules)
    .where(gte(rules.priority, placeholder('first')))
    .orderBy(asc(rules.priority))
    .prepare(),
  ruleCount: db.select({ count: count() }).from(rules).prepare(),
}))
