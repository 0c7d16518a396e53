import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** Tenants that are not simply active. */
export const states = sqliteTable('billing_states', {
  tenantId: text('tenant_id').primaryKey(),
  /** Where the programs on the ports keep what the tenant owes; its own while the row is there. */
  bucket: integer().notNull().unique(),
  /** 0 = none. */
  limitBps: integer('limit_bps').notNull().default(0),
  /** '' = not suspended. */
  suspendedAt: text('suspended_at').notNull().default(''),
  /** Suspended, and no traffic passes. */
  blocked: integer({ mode: 'boolean' }).notNull().default(false),
})

export type StateRow = typeof states.$inferSelect
