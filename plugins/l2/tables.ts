import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** Bridges that the operator made; the managed ones are not here. */
export const bridges = sqliteTable('l2_bridges', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
})

/** Devices that the operator put into a bridge, managed or own. */
export const ports = sqliteTable(
  'l2_ports',
  {
    bridge: text().notNull(),
    interface: text().notNull().unique(),
  },
  (table) => [primaryKey({ columns: [table.bridge, table.interface] })],
)

/** `work_mac`: address of the workload bridge, made up with the store, so that guests know the node by one address. */
export const settings = sqliteTable('l2_settings', {
  name: text().primaryKey(),
  value: text().notNull(),
})
