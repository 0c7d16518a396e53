import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** One row for each MAC that has had an address of a network, kept for a week after its lease ended. */
export const leases = sqliteTable(
  'dhcp_leases',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    /** What the data plane knows the network by. */
    net: integer().notNull(),
    networkId: text('network_id').notNull(),
    address: integer().notNull(),
    mac: text().notNull(),
    /** As the client calls itself; '' = not told. */
    hostname: text().notNull().default(''),
    /** An active one whose time is over is expired, whether that has been written already or not. */
    state: text({ enum: ['active', 'expired', 'revoked'] }).notNull(),
    /** Unix seconds. */
    expiresAt: integer('expires_at').notNull(),
    /** Unix seconds; 0 = active. */
    endedAt: integer('ended_at').notNull().default(0),
    /** Unix ms at which an operator ended it; 0 = nobody did, or it has been granted anew since. */
    releasedAt: integer('released_at').notNull().default(0),
    /** 1 while the client of one that was revoked may hold it still. */
    held: integer().notNull().default(0),
    /** Unix ms of the last that was heard of it; what is older is no news. */
    heardAt: integer('heard_at').notNull(),
  },
  (table) => [
    uniqueIndex('dhcp_leases_holder').on(table.net, table.address, table.mac),
    index('dhcp_leases_due').on(table.state, table.expiresAt),
    index('dhcp_leases_ended').on(table.endedAt).where(sql`ended_at > 0`),
    index('dhcp_leases_held').on(table.expiresAt).where(sql`held > 0`),
    index('dhcp_leases_address').on(table.address),
    index('dhcp_leases_mac').on(table.mac),
  ],
)

export type LeaseRow = typeof leases.$inferSelect
