import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const bindings = sqliteTable('macbind_bindings', {
  id: integer().primaryKey({ autoIncrement: true }),
  mac: text().notNull().unique(),
  /** Name of the port; '' is every workload port. */
  port: text('port_id').notNull(),
  /** 0 is any. */
  vlan: integer('vlan_id').notNull(),
  mode: text({ enum: ['hard', 'soft'] }).notNull(),
})

export type Row = typeof bindings.$inferSelect
