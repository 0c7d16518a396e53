import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/**
 * Time is kept in slots of five minutes since 1970, and days of 288 of them (UTC). Keys that order rows are numbers made of
 * two (keys.ts): one column is a rowid, which takes half the room of an index and is walked in order.
 */

/** MACs that were ever seen, and behind them tenants; number 0 is the node, which is the sum of all MACs. */
export const macs = sqliteTable('flows_macs', {
  id: integer().primaryKey(),
  /** The id of a tenant, which is never that of another one. */
  mac: text().notNull().unique(),
  /** Slot in which it was seen first: from there on a missing sample is a 0. */
  firstSlot: integer('first_slot').notNull(),
})

/** What a row of the kernel's counters had reached when it was read last. */
export const counters = sqliteTable('flows_counters', {
  /** `counterKey` */
  id: integer().primaryKey(),
  /** A row that was born at another instant has begun at 0. */
  born: integer().notNull(),
  bytesIn: integer('bytes_in').notNull(),
  bytesOut: integer('bytes_out').notNull(),
  packetsIn: integer('packets_in').notNull(),
  packetsOut: integer('packets_out').notNull(),
})

/** What the slot of a binding of a tenant had reached when it was read last. */
export const bindings = sqliteTable('flows_bindings', {
  /** That of its entry. */
  key: text().primaryKey(),
  /** Another binding with this key has begun at 0. */
  since: text().notNull(),
  bytesIn: integer('bytes_in').notNull(),
  bytesOut: integer('bytes_out').notNull(),
  packetsIn: integer('packets_in').notNull(),
  packetsOut: integer('packets_out').notNull(),
})

/** What went to a MAC and came from it in one slot of a day that is not over. */
export const samples = sqliteTable('flows_samples', {
  /** `sampleKey` */
  id: integer().primaryKey(),
  bytesIn: integer('bytes_in').notNull(),
  bytesOut: integer('bytes_out').notNull(),
  packetsIn: integer('packets_in').notNull(),
  packetsOut: integer('packets_out').notNull(),
})

/** The sums of a day that is over, apart from its samples: a sum of many days reads no blob. */
export const days = sqliteTable('flows_days', {
  /** `dayKey` */
  id: integer().primaryKey(),
  bytesIn: integer('bytes_in').notNull(),
  bytesOut: integer('bytes_out').notNull(),
  packetsIn: integer('packets_in').notNull(),
  packetsOut: integer('packets_out').notNull(),
})

/** The samples of such a day in kB (series.ts). */
export const series = sqliteTable('flows_series', {
  /** `dayKey` */
  id: integer().primaryKey(),
  kilobytes: blob({ mode: 'buffer' }).notNull(),
})

/** IPv4 addresses that a MAC has sent from. */
export const addresses = sqliteTable(
  'flows_addresses',
  {
    macId: integer('mac_id').notNull(),
    address: text().notNull(),
    firstSlot: integer('first_slot').notNull(),
    lastSlot: integer('last_slot').notNull(),
  },
  ({ macId, address, lastSlot }) => [
    primaryKey({ columns: [macId, address] }),
    index('flows_addresses_last').on(lastSlot),
  ],
)

/** One row: until when everything has been read. */
export const readings = sqliteTable('flows_readings', {
  id: integer().primaryKey(),
  /** Milliseconds of Unix time. */
  at: integer().notNull(),
  /** MACs that it could not account. */
  refused: integer().notNull().default(0),
})

/** Bytes and packets to a MAC and from it. */
export type Sums = Omit<typeof samples.$inferSelect, 'id'>
