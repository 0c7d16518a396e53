/** The statements of the area, prepared once per connection. */
import { asc, count, eq, gt, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { addresses, place } from './tables.ts'

const { placeholder } = sql

export const queries = prepared((db) => ({
  one: db
    .select()
    .from(addresses)
    .where(eq(addresses.id, placeholder('id')))
    .prepare(),
  withIp: db
    .select()
    .from(addresses)
    .where(eq(addresses.ip, placeholder('ip')))
    .prepare(),
  page: db
    .select()
    .from(addresses)
    .where(gt(addresses.number, placeholder('after')))
    .orderBy(asc(addresses.number))
    .limit(PAGE)
    .prepare(),
  /** Those that this node has. */
  own: db.select().from(addresses).where(eq(addresses.primary, '')).prepare(),
  ownCount: db.select({ count: count() }).from(addresses).where(eq(addresses.primary, '')).prepare(),
  count: db.select({ count: count() }).from(addresses).prepare(),
  place: db.select().from(place).prepare(),
}))
