/** The statements of the machine registry, prepared once per connection. */
import { asc, eq, gt, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { machines } from './tables.ts'

const { placeholder } = sql

export const queries = prepared((db) => ({
  machine: db
    .select()
    .from(machines)
    .where(eq(machines.name, placeholder('name')))
    .prepare(),
  page: db
    .select()
    .from(machines)
    .where(gt(machines.name, placeholder('after')))
    .orderBy(asc(machines.name))
    .limit(PAGE)
    .prepare(),
  add: db
    .insert(machines)
    .values({ name: placeholder('name'), createdAt: placeholder('createdAt') })
    .prepare(),
  remove: db
    .delete(machines)
    .where(eq(machines.name, placeholder('name')))
    .prepare(),
}))
