import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { LEVELS } from './schemas.ts'

/** A level of an earlier release comes first, as in `rankOf`. */
const LEVEL_RANK = `CASE level ${LEVELS.map((level, rank) => `WHEN '${level}' THEN ${rank}`).join(' ')} ELSE -1 END`

export const rules = sqliteTable(
  'firewall_rules',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    action: text().notNull(),
    priority: integer().notNull().default(0),
    /** '' = any. */
    protocol: text().notNull().default(''),
    sourceIp: text('source_ip').notNull().default(''),
    destIp: text('dest_ip').notNull().default(''),
    /** 0 = absent, as are the other ports. */
    sourcePort: integer('source_port').notNull().default(0),
    destPort: integer('dest_port').notNull().default(0),
    destPortMax: integer('dest_port_max').notNull().default(0),
    interface: text().notNull().default(''),
    mac: text().notNull().default(''),
    level: text().notNull().default('global'),
    comment: text().notNull().default(''),
    /** Other values than these two come from rows of earlier releases only; see legacy.ts. */
    chain: text().notNull().default('prerouting'),
    stateful: integer({ mode: 'boolean' }).notNull().default(true),
    /** Breaks ties of level and priority: the id of the first rule in a line of replacements (D66). */
    tie: integer().notNull(),
    /** Window outside which the rule is not in force; '' = none. RFC 3339 UTC, or HH:MM UTC when daily. */
    scheduleFrom: text('schedule_from').notNull().default(''),
    scheduleTo: text('schedule_to').notNull().default(''),
    scheduleDaily: integer('schedule_daily', { mode: 'boolean' }).notNull().default(false),
    /** SQLite computes it, so that the list in order of evaluation can go by an index. */
    levelRank: integer('level_rank').generatedAlwaysAs(sql.raw(LEVEL_RANK), { mode: 'virtual' }),
  },
  (table) => [
    index('firewall_rules_schedule').on(table.scheduleFrom),
    index('firewall_rules_kind').on(table.action, table.level),
    index('firewall_rules_order').on(table.levelRank, table.priority, table.tie),
  ],
)

/** Drop rules whose standing connections have not been ended yet; see evict.ts. */
export const pending = sqliteTable('firewall_pending', {
  rule: integer().primaryKey(),
})

export const settings = sqliteTable('firewall_settings', {
  name: text().primaryKey(),
  value: text().notNull(),
})

export type Row = Omit<typeof rules.$inferSelect, 'levelRank'>
