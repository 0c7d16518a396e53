import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

export const zones = sqliteTable('dns_zones', {
  id: integer().primaryKey({ autoIncrement: true }),
  /** Absolute, in lower case: `example.org.` */
  name: text().notNull().unique(),
  /** Rises with every change to the zone (RFC 1982). */
  serial: integer().notNull(),
})

export const records = sqliteTable(
  'dns_records',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    zoneId: integer('zone_id').notNull(),
    /** Absolute, in lower case. */
    name: text().notNull(),
    type: text().notNull(),
    value: text().notNull(),
    ttl: integer().notNull(),
    /** Canonical CIDR; '' is everybody. */
    subnet: text().notNull(),
  },
  (table) => [
    uniqueIndex('dns_records_place').on(table.zoneId, table.name, table.type, table.subnet, table.value),
    index('dns_records_zone').on(table.zoneId, table.id),
  ],
)

/** The private key of a signed zone. It leaves the store for the responder alone. */
export const keys = sqliteTable('dns_keys', {
  zoneId: integer('zone_id').primaryKey(),
  /** PKCS8 DER, base64. */
  csk: text().notNull(),
})

export type ZoneRow = typeof zones.$inferSelect
export type RecordRow = typeof records.$inferSelect
