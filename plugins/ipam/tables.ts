import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** Addresses are lower-case hex of fixed length (8 digits for IPv4, 32 for IPv6), so that the order of text is theirs. */
export const pools = sqliteTable(
  'ipam_pools',
  {
    /** Those of pools that have an owner begin at 2^40: every member of a cluster gives them by itself. */
    id: integer().primaryKey({ autoIncrement: true }),
    name: text().notNull(),
    /** As the wire shows it: `10.0.0.0/24`. */
    subnet: text().notNull(),
    /** 4 or 6. */
    family: integer().notNull(),
    first: text().notNull(),
    last: text().notNull(),
    /** '' = none. */
    gateway: text().notNull().default(''),
    rangeStart: text('range_start').notNull(),
    rangeEnd: text('range_end').notNull(),
    /** '' = the operator's own. */
    tenantId: text('tenant_id').notNull().default(''),
    /** What made the pool and alone may remove it, as messages name it: `network net-…`; '' = whoever calls the API. */
    owner: text().notNull().default(''),
  },
  (table) => [
    index('ipam_pools_shared').on(table.tenantId, table.family, table.first).where(sql`owner = ''`),
    index('ipam_pools_own').on(table.tenantId, table.family, table.first).where(sql`owner <> ''`),
    index('ipam_pools_tenant').on(table.tenantId, table.id),
    index('ipam_pools_direct').on(table.tenantId, table.name).where(sql`owner = ''`),
  ],
)

export const allocations = sqliteTable(
  'ipam_allocations',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    poolId: integer('pool_id').notNull(),
    /** The pool's. */
    tenantId: text('tenant_id').notNull(),
    ip: text().notNull(),
    hostname: text().notNull().default(''),
    /** What uses the address and alone may release it: `endpoint ep-…`; '' = whoever calls the API. */
    owner: text().notNull().default(''),
  },
  (table) => [
    uniqueIndex('ipam_allocations_address').on(table.poolId, table.ip),
    index('ipam_allocations_tenant').on(table.tenantId, table.id),
    index('ipam_allocations_direct').on(table.tenantId).where(sql`owner = ''`),
  ],
)

/** What is left of each pool: disjoint intervals, both ends included, never two that touch. */
export const free = sqliteTable(
  'ipam_free',
  {
    pool: integer().notNull(),
    first: text().notNull(),
    last: text().notNull(),
  },
  (table) => [primaryKey({ columns: [table.pool, table.first] })],
)

/** Ids of pools that were given last, of those that all members of a cluster hold (`shared`) and of this node's (`own`). */
export const counters = sqliteTable('ipam_counters', {
  name: text().primaryKey(),
  value: integer().notNull(),
})

export type PoolRow = typeof pools.$inferSelect
export type AllocationRow = typeof allocations.$inferSelect
