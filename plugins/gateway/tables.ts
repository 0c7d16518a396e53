import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** One row, as long as a VIP is configured. */
export const role = sqliteTable('gateway_role', {
  id: integer().primaryKey(),
  state: text({ enum: ['active', 'standby'] }).notNull(),
  /** Standby by an order, which holds until another one. */
  ordered: integer({ mode: 'boolean' }).notNull(),
  /** The boot of the node in which it became, or was seen to be, active; '' for none. */
  boot: text().notNull(),
  /** Where the VIP was put last: while the node knows no uplink it stays there. */
  interface: text().notNull(),
})

export type RoleRow = typeof role.$inferSelect
