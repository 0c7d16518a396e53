import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import type { Action, Direction, QuotaStatus } from './schemas.ts'

export const limits = sqliteTable(
  'bandwidth_limits',
  {
    /** In the order in which they were made. */
    seq: integer().primaryKey({ autoIncrement: true }),
    id: text().notNull().unique(),
    mac: text().notNull().unique(),
    /** ifindex of the only port it is for; 0 is any. */
    interface: integer().notNull(),
    /** Bits a second; 0, in a pool only: what the pool has. */
    rate: integer().notNull(),
    /** Bytes. */
    burst: integer().notNull(),
    guaranteed: integer().notNull(),
    direction: text().$type<Direction>().notNull(),
    /** '' for none. */
    poolId: text('pool_id').notNull(),
  },
  (table) => [index('bandwidth_limits_pool').on(table.poolId).where(sql`pool_id <> ''`)],
)

export const pools = sqliteTable('bandwidth_pools', {
  seq: integer().primaryKey({ autoIncrement: true }),
  id: text().notNull().unique(),
  /** Which class it is in the kernel. */
  number: integer().notNull().unique(),
  name: text().notNull(),
  /** Bits a second. */
  total: integer().notNull(),
})

/** Members that were added by themselves; a limit that names a pool makes its MAC one, too. */
export const members = sqliteTable(
  'bandwidth_members',
  {
    mac: text().primaryKey(),
    poolId: text('pool_id').notNull(),
    /** Bits a second; 0: what the pool has. */
    rate: integer().notNull(),
  },
  (table) => [index('bandwidth_members_pool').on(table.poolId, table.mac)],
)

export const quotas = sqliteTable('bandwidth_quotas', {
  /** Never used again: it tells a quota from an earlier one in the same slot. */
  seq: integer().primaryKey({ autoIncrement: true }),
  id: text().notNull().unique(),
  mac: text().notNull().unique(),
  /** Where the kernel counts it. */
  slot: integer().notNull().unique(),
  /** Bytes a month. */
  limit: integer('limit_bytes').notNull(),
  action: text().$type<Action>().notNull(),
  enforced: integer({ mode: 'boolean' }).notNull(),
  /** What the kernel had counted when it was last written down, and in which month (year * 12 + month from 0 on). */
  used: integer().notNull(),
  month: integer().notNull(),
  /** What was last told. */
  status: text().$type<QuotaStatus>().notNull(),
})

/** Which class a MAC has in the kernel, as long as it has a limit, a membership or a quota; another one in another pool. */
export const shapes = sqliteTable(
  'bandwidth_shapes',
  {
    mac: text().primaryKey(),
    number: integer().notNull().unique(),
    /** Number of the pool, 0 for none. */
    pool: integer().notNull(),
    /** Pair of devices that its classes are on; -1 while it has none. */
    shard: integer().notNull(),
  },
  (table) => [index('bandwidth_shapes_shard').on(table.shard)],
)

/** Pairs of devices that are there: those in use, and for a moment longer. */
export const shards = sqliteTable('bandwidth_shards', { shard: integer().primaryKey() })

/** One row: what the licence lets all workloads of the node send, and get. */
export const ceilings = sqliteTable(
  'bandwidth_ceilings',
  {
    id: integer().primaryKey(),
    /** Gbit/s, 0 for no end. */
    gbps: integer().notNull(),
  },
  (table) => [uniqueIndex('bandwidth_ceilings_one').on(table.id)],
)

export type LimitRow = typeof limits.$inferSelect
export type PoolRow = typeof pools.$inferSelect
export type MemberRow = typeof members.$inferSelect
export type QuotaRow = typeof quotas.$inferSelect
export type ShapeRow = typeof shapes.$inferSelect
