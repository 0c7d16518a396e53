import { integer, sqliteTable } from 'drizzle-orm/sqlite-core'

/** A VLAN without a row is allowed. */
export const policies = sqliteTable('vlan_policies', {
  vlan: integer('vlan_id').primaryKey(),
  allowed: integer({ mode: 'boolean' }).notNull(),
})
