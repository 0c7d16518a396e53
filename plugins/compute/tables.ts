import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** What a machine has (endpoints, public addresses) stands where that is kept: in the networks, under the machine's name. */
export const machines = sqliteTable('compute_machines', {
  name: text().primaryKey(),
  createdAt: text('created_at').notNull(),
})

/** Operations that run, and the last ones that ran. */
export const tasks = sqliteTable(
  'compute_tasks',
  {
    /** In the order in which they began; never used again. */
    number: integer().primaryKey({ autoIncrement: true }),
    id: text().notNull().unique(),
    kind: text().notNull(),
    state: text().notNull(),
    resource: text().notNull(),
    /** '' = the operator's own. */
    tenantId: text('tenant_id').notNull().default(''),
    /** 0 to 100. */
    progress: integer().notNull().default(0),
    startedAt: text('started_at').notNull(),
    /** '' while it runs. */
    finishedAt: text('finished_at').notNull().default(''),
    /** '' = none. */
    error: text().notNull().default(''),
    /** JSON of an object; '' = none. */
    result: text().notNull().default(''),
    /** How many tasks had ended with this one; 0 while it runs. */
    ended: integer().notNull().default(0),
  },
  (table) => [
    index('compute_tasks_state').on(table.state, table.number),
    uniqueIndex('compute_tasks_ended').on(table.ended).where(sql`ended > 0`),
  ],
)

export type TaskRow = typeof tasks.$inferSelect
