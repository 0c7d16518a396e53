import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** IPv4 addresses are whole numbers, so that their order is that of the addresses; 0 = none. */
export const networks = sqliteTable(
  'networks_networks',
  {
    id: text().primaryKey(),
    /** What the data plane knows the network by: 1 to 65535. */
    net: integer().notNull().unique(),
    name: text().notNull().unique(),
    /** Network and broadcast address. */
    first: integer().notNull(),
    last: integer().notNull(),
    gateway: integer().notNull().default(0),
    /** 0 = none. */
    vlan: integer().notNull().default(0),
    /** '' = the operator's own. */
    tenantId: text('tenant_id').notNull().default(''),
    createdAt: text('created_at').notNull(),
    hostGateway: integer('host_gateway', { mode: 'boolean' }).notNull().default(false),
    snat: integer({ mode: 'boolean' }).notNull().default(false),
    dhcp: integer({ mode: 'boolean' }).notNull().default(false),
    /** The pool in IPAM that holds the same addresses. */
    pool: integer().notNull(),
  },
  (table) => [
    index('networks_networks_block').on(table.first),
    index('networks_networks_tenant').on(table.tenantId, table.name),
    uniqueIndex('networks_networks_vlan').on(table.vlan).where(sql`vlan > 0`),
  ],
)

/** Endpoints that are bound, or free with a MAC of their own. All others follow from the network (D41). */
export const endpoints = sqliteTable(
  'networks_endpoints',
  {
    net: integer().notNull(),
    address: integer().notNull(),
    mac: text().notNull(),
    /** The MAC that it has, and returns to, while it is free; '' = the default one (D43). */
    freeMac: text('free_mac').notNull().default(''),
    /** '' = free. */
    boundAt: text('bound_at').notNull().default(''),
    /** Name of the machine that it was attached for; '' = none. */
    machine: text().notNull().default(''),
    /** The device that its frames must come in by; '' = none is named. */
    port: text().notNull().default(''),
    /** Without one, with `endpoint_ports` sticky: the first device that its frames came in by. */
    keptPort: text('kept_port').notNull().default(''),
    /** Since when it has been reserved for its MAC; '' = it is not. Ends with the binding, or the MAC. */
    reservedAt: text('reserved_at').notNull().default(''),
  },
  (table) => [
    primaryKey({ columns: [table.net, table.address] }),
    uniqueIndex('networks_endpoints_mac').on(table.net, table.mac),
    uniqueIndex('networks_endpoints_free_mac').on(table.net, table.freeMac).where(sql`free_mac <> ''`),
    index('networks_endpoints_machine').on(table.machine, table.net, table.address).where(sql`machine <> ''`),
    index('networks_endpoints_bound').on(table.net, table.address).where(sql`bound_at <> ''`),
    index('networks_endpoints_port').on(table.port).where(sql`port <> ''`),
    index('networks_endpoints_kept').on(table.keptPort).where(sql`kept_port <> ''`),
    index('networks_endpoints_unnamed').on(table.net).where(sql`bound_at <> '' and port = ''`),
    index('networks_endpoints_reserved').on(table.net, table.address).where(sql`reserved_at <> ''`),
  ],
)

/** Blocks of public addresses that are routed to this node. Disjoint. */
export const ranges = sqliteTable(
  'networks_ranges',
  {
    id: text().primaryKey(),
    first: integer().notNull(),
    last: integer().notNull(),
    /** '' = for everybody. */
    tenantId: text('tenant_id').notNull().default(''),
    description: text().notNull().default(''),
    /** How many of its addresses are claimed. */
    used: integer().notNull().default(0),
  },
  (table) => [
    uniqueIndex('networks_ranges_block').on(table.last),
    index('networks_ranges_tenant').on(table.tenantId, table.last),
  ],
)

/** Public addresses that machines use. */
export const claims = sqliteTable(
  'networks_claims',
  {
    ip: integer().primaryKey(),
    range: text().notNull(),
    machine: text().notNull(),
    /** The endpoint whose NIC has the address as well; both 0 for a NIC that has nothing else. */
    net: integer().notNull().default(0),
    address: integer().notNull().default(0),
    /** Of a NIC that has nothing else: its MAC, its number above ROUTED_NET_BASE, its device. */
    mac: text().notNull().default(''),
    own: integer().notNull().default(0),
    port: text().notNull().default(''),
    /** As of an endpoint. */
    keptPort: text('kept_port').notNull().default(''),
  },
  (table) => [
    uniqueIndex('networks_claims_endpoint').on(table.net, table.address).where(sql`net > 0`),
    uniqueIndex('networks_claims_own').on(table.own).where(sql`own > 0`),
    index('networks_claims_machine').on(table.machine, table.ip),
    index('networks_claims_mac').on(table.mac).where(sql`mac <> ''`),
    index('networks_claims_port').on(table.port).where(sql`port <> ''`),
    index('networks_claims_kept').on(table.keptPort).where(sql`kept_port <> ''`),
  ],
)

/** Numbers that were given last, so that none is used again at once. */
export const counters = sqliteTable('networks_counters', {
  name: text().primaryKey(),
  value: integer().notNull(),
})

export type NetworkRow = typeof networks.$inferSelect
export type EndpointRow = typeof endpoints.$inferSelect
export type RangeRow = typeof ranges.$inferSelect
export type ClaimRow = typeof claims.$inferSelect
