import { sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** What a machine has (endpoints, public addresses) stands where that is kept: in the networks, under the machine's name. */
export const machines = sqliteTable('compute_machines', {
  name: text().primaryKey(),
  createdAt: text('created_at').notNull(),
})
