import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** '' stands for absent throughout. */
export const networks = sqliteTable(
  'vxlan_networks',
  {
    vni: integer().primaryKey(),
    /** Canonical CIDR. */
    subnet: text().notNull(),
    /** Id of the private network that it was made for. */
    network: text().notNull(),
  },
  (table) => [index('vxlan_networks_subnet').on(table.subnet), index('vxlan_networks_network').on(table.network)],
)

export const peers = sqliteTable(
  'vxlan_peers',
  {
    vni: integer().notNull(),
    host: text().notNull(),
    mac: text().notNull(),
    /** Canonical address. */
    vtep: text().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.vni, table.host] }),
    uniqueIndex('vxlan_peers_mac').on(table.vni, table.mac).where(sql`mac <> ''`),
    index('vxlan_peers_vtep').on(table.vtep, table.vni),
  ],
)

/** One row: what all overlays go out by. */
export const local = sqliteTable('vxlan_local', {
  id: integer().primaryKey(),
  /** The node's own VTEP. */
  address: text().notNull(),
  /** MTU of the device that has it. */
  mtu: integer().notNull(),
})

export type NetworkRow = typeof networks.$inferSelect
export type PeerRow = typeof peers.$inferSelect
export type LocalRow = typeof local.$inferSelect
