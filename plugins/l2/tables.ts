import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const BOND_MODES = ['active-backup', '802.3ad'] as const

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

/**
 * `work_mac`: address of the workload bridge, made up with the store, so that guests know the node by one address.
 * `open_ports`: what `auto` of the configuration key means on this node; closed where the store began with it.
 */
export const settings = sqliteTable('l2_settings', {
  name: text().primaryKey(),
  value: text().notNull(),
})

export const bonds = sqliteTable('l2_bonds', {
  /** Order of creation. */
  number: integer().primaryKey({ autoIncrement: true }),
  id: text().notNull().unique(),
  name: text().notNull().unique(),
  mode: text({ enum: BOND_MODES }).notNull(),
  mtu: integer().notNull(),
})

/** Devices that the operator put into a bond. */
export const bondMembers = sqliteTable(
  'l2_bond_members',
  {
    number: integer().primaryKey({ autoIncrement: true }),
    bond: text().notNull(),
    interface: text().notNull().unique(),
    /** The device was up when it came, and is brought up when it goes. */
    wasUp: integer('was_up', { mode: 'boolean' }).notNull(),
  },
  (table) => [index('l2_bond_members_bond').on(table.bond)],
)

export type BondRow = typeof bonds.$inferSelect
