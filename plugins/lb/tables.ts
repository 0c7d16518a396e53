import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import type { Algorithm, CheckType, Protocol } from './schemas.ts'

export const vips = sqliteTable(
  'lb_vips',
  {
    /** In the order in which they were added. */
    number: integer().primaryKey({ autoIncrement: true }),
    id: text().notNull().unique(),
    /** Canonical. */
    address: text().notNull(),
    /** 0: every port. */
    port: integer().notNull(),
    protocol: text().$type<Protocol>().notNull(),
    algorithm: text().$type<Algorithm>().notNull(),
    dsr: integer({ mode: 'boolean' }).notNull(),
    /** Who has the address on the node: the area itself (lb), somebody before it (node), or who moves it between nodes (moving). */
    holder: text().$type<'lb' | 'node' | 'moving'>().notNull(),
    /** '' for none. */
    checkType: text('check_type').$type<CheckType>().notNull(),
    /** Seconds. */
    checkInterval: integer('check_interval').notNull(),
    checkTimeout: integer('check_timeout').notNull(),
    checkThreshold: integer('check_threshold').notNull(),
    checkPath: text('check_path').notNull(),
  },
  (table) => [
    uniqueIndex('lb_vips_frontend').on(table.address, table.port, table.protocol),
    index('lb_vips_held').on(table.address).where(sql`holder = 'lb'`),
  ],
)

export const backends = sqliteTable(
  'lb_backends',
  {
    /** Never used again: it tells a backend from an earlier one of the same id. */
    number: integer().primaryKey({ autoIncrement: true }),
    vip: text().notNull(),
    id: text().notNull(),
    /**
     * What the data plane knows it by: the id, or another name while a draining backend has that. Whoever comes to an
     * address and port that is draining continues it, by its handle.
     */
    handle: text().notNull(),
    /** Canonical. */
    ip: text().notNull(),
    port: integer().notNull(),
    weight: integer().notNull(),
    /** draining: no longer part of the API, and gone when its connections are. */
    state: text().$type<'up' | 'down' | 'draining'>().notNull(),
    /** What one result of the check decides, whatever the threshold: a first success (new), the next one (override). */
    settling: text().$type<'' | 'new' | 'override'>().notNull(),
    /** Grows with every override, so that no check that began before it undoes it. */
    revision: integer().notNull().default(0),
    /** When draining ends at the latest, in ms since 1970; 0 while it does not. */
    drainUntil: integer('drain_until').notNull().default(0),
  },
  (table) => [
    uniqueIndex('lb_backends_handle').on(table.vip, table.handle),
    uniqueIndex('lb_backends_target').on(table.vip, table.ip, table.port),
    uniqueIndex('lb_backends_id').on(table.vip, table.id).where(sql`state <> 'draining'`),
    index('lb_backends_ip').on(table.ip),
    index('lb_backends_state').on(table.state, table.drainUntil),
  ],
)

/** One row, as long as there was a VIP: where the addresses were put last. */
export const place = sqliteTable('lb_place', {
  id: integer().primaryKey(),
  interface: text().notNull(),
})

/**
 * Where nft balances: connections that conntrack still holds at a backend which serves them no longer. One row each, until
 * they have been ended.
 */
export const pending = sqliteTable('lb_pending', {
  id: integer().primaryKey({ autoIncrement: true }),
  address: text().notNull(),
  /** 0: every port. */
  port: integer().notNull(),
  protocol: text().$type<Protocol>().notNull(),
  backendIp: text('backend_ip').notNull(),
  /** 0: that of the client's choice. */
  backendPort: integer('backend_port').notNull(),
})

export type PendingRow = typeof pending.$inferSelect
export type VipRow = typeof vips.$inferSelect
export type BackendRow = typeof backends.$inferSelect
