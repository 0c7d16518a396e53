import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const addresses = sqliteTable(
  'float_addresses',
  {
    /** In the order in which they were added. */
    number: integer().primaryKey({ autoIncrement: true }),
    id: text().notNull().unique(),
    /** Canonical, without length. */
    ip: text().notNull().unique(),
    /** Name of the node that has it; '' is this node, whatever it is called. */
    primary: text().notNull(),
    standby: text().notNull(),
    createdAt: text('created_at').notNull(),
  },
  (table) => [index('float_addresses_primary').on(table.primary)],
)

/** One row, as long as there was an address: where the addresses were put last. */
export const place = sqliteTable('float_place', {
  id: integer().primaryKey(),
  interface: text().notNull(),
})

export type AddressRow = typeof addresses.$inferSelect
