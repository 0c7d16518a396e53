import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** Deleted ones have no row. */
export const tenants = sqliteTable('tenants_tenants', {
  id: text().primaryKey(),
  name: text().notNull().unique(),
  status: text({ enum: ['active', 'suspended'] }).notNull(),
  createdAt: text('created_at').notNull(),
  updatedAt: text('updated_at').notNull(),
})

/** Limits that were set; what has no row is unlimited. */
export const quotas = sqliteTable(
  'tenants_quotas',
  {
    tenant: text().notNull(),
    /** As core/tenancy.ts names it. */
    resource: text().notNull(),
    /** 0 = unlimited. */
    most: integer().notNull(),
    updatedAt: text('updated_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenant, table.resource] })],
)

/** Keys `tk_<id>_<secret>`. */
export const keys = sqliteTable(
  'tenants_keys',
  {
    id: text().primaryKey(),
    tenant: text().notNull(),
    label: text().notNull(),
    /** SHA-256 of the secret, hex. */
    hash: text().notNull(),
    createdAt: text('created_at').notNull(),
    /** Up to a minute old; '' = never. */
    lastUsedAt: text('last_used_at').notNull().default(''),
    /** '' = never. */
    expiresAt: text('expires_at').notNull().default(''),
    /** `<kind> <label>` of who minted it. */
    createdBy: text('created_by').notNull(),
  },
  (table) => [index('tenants_keys_tenant').on(table.tenant, table.createdAt, table.id)],
)

export type TenantRow = typeof tenants.$inferSelect
export type KeyRow = typeof keys.$inferSelect
