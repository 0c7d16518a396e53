import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** Port forwards and source NAT in one table, so that they share one sequence of ids. */
export const rules = sqliteTable(
  'nat_rules',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    /** port_forward or snat. */
    type: text().notNull(),
    family: integer().notNull(),
    /** Of a port forward; '' and 0 otherwise. Addresses as nft writes them. */
    destIp: text('dest_ip').notNull().default(''),
    destPort: integer('dest_port').notNull().default(0),
    targetIp: text('target_ip').notNull().default(''),
    targetPort: integer('target_port').notNull().default(0),
    /** Of source NAT; '' otherwise. First and last address of the block: family, then hex, so that they sort. */
    interface: text().notNull().default(''),
    first: text().notNull().default(''),
    last: text().notNull().default(''),
    /** The block with its length, also where that is one address. */
    cidr: text().notNull().default(''),
  },
  (table) => [
    index('nat_rules_type').on(table.type, table.id),
    uniqueIndex('nat_rules_dest').on(table.destIp, table.destPort).where(sql`type = 'port_forward'`),
    uniqueIndex('nat_rules_block').on(table.interface, table.cidr).where(sql`type = 'snat'`),
    index('nat_rules_first').on(table.interface, table.first).where(sql`type = 'snat'`),
  ],
)

/**
 * Connections that conntrack has yet to forget; see evict.ts. With a target: those that a removed forward carried. Without:
 * datagrams that flowed past a forward before it was there.
 */
export const pending = sqliteTable('nat_pending', {
  id: integer().primaryKey({ autoIncrement: true }),
  destIp: text('dest_ip').notNull(),
  destPort: integer('dest_port').notNull(),
  targetIp: text('target_ip').notNull().default(''),
  targetPort: integer('target_port').notNull().default(0),
})

export type Row = typeof rules.$inferSelect
export type PendingRow = typeof pending.$inferSelect
