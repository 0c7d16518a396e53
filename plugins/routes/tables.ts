import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** '' and 0 stand for absent throughout. */
export const routes = sqliteTable(
  'routes_routes',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    /** Canonical, always with its length: `10.0.0.7/32`. */
    destination: text().notNull(),
    gateway: text().notNull(),
    interface: text().notNull(),
    /** As the kernel counts it: an IPv6 route never has 0. */
    metric: integer().notNull(),
    /** 0 = main. */
    table: integer().notNull(),
  },
  (table) => [
    // What the kernel tells two routes apart by.
    uniqueIndex('routes_routes_place').on(table.destination, table.table, table.metric),
    index('routes_routes_table').on(table.table),
  ],
)

export const rules = sqliteTable(
  'routes_rules',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    priority: integer().notNull(),
    from: text().notNull(),
    to: text().notNull(),
    fwmark: integer().notNull(),
    iif: text().notNull(),
    oif: text().notNull(),
    table: integer().notNull(),
  },
  (table) => [index('routes_rules_priority').on(table.priority)],
)

export type RouteRow = typeof routes.$inferSelect
export type RuleRow = typeof rules.$inferSelect
