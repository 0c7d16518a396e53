import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** One row while there is a neighbor: the AS whose routes go to the kernel, and how this node is called in BGP. */
export const speaker = sqliteTable('bgp_speaker', {
  id: integer().primaryKey(),
  as: integer().notNull(),
  routerId: text('router_id').notNull(),
})

export const neighbors = sqliteTable('bgp_neighbors', {
  id: integer().primaryKey({ autoIncrement: true }),
  addr: text().notNull().unique(),
  peerAs: integer('peer_as').notNull(),
  localAs: integer('local_as').notNull(),
  /** The AS of the speaker that talks to it, and whether that is one beside the node's own. */
  speakerAs: integer('speaker_as').notNull(),
  view: integer({ mode: 'boolean' }).notNull(),
  holdTime: integer('hold_time').notNull(),
  keepalive: integer().notNull(),
  /** Leaves the store for bgpd alone; '' is none. */
  md5Key: text('md5_key').notNull(),
  bfd: integer({ mode: 'boolean' }).notNull(),
  bfdInterval: integer('bfd_interval').notNull(),
  bfdMultiplier: integer('bfd_multiplier').notNull(),
  /** Ids of route-maps, 0 is none. */
  importMap: integer('import_map').notNull().default(0),
  exportMap: integer('export_map').notNull().default(0),
})

/** What was last seen of a session. */
export const sessions = sqliteTable('bgp_sessions', {
  neighborId: integer('neighbor_id').primaryKey(),
  state: text().notNull(),
  bfd: text().notNull(),
  /** Unix ms. */
  changedAt: integer('changed_at').notNull(),
})

export const announcements = sqliteTable(
  'bgp_announcements',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    prefix: text().notNull().unique(),
    family: integer().notNull(),
    /** '' is the node itself. */
    nextHop: text('next_hop').notNull(),
    /** Number of the next hop, 0 is the node itself. */
    tag: integer().notNull(),
    /** JSON, as the API shows them. */
    communities: text().notNull(),
    /** What is set, as one comparable string. */
    attributes: text().notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [index('bgp_announcements_attributes').on(table.attributes), index('bgp_announcements_tag').on(table.tag)],
)

/** Next hops that announcements name, numbered so that maps can tell them apart. */
export const nextHops = sqliteTable('bgp_next_hops', {
  tag: integer().primaryKey(),
  family: integer().notNull(),
  address: text().notNull().unique(),
})

/** `entries`: JSON, as the API shows them. */
export const prefixLists = sqliteTable('bgp_prefix_lists', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  entries: text().notNull(),
})
export const routeMaps = sqliteTable('bgp_route_maps', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  entries: text().notNull(),
})

export type NeighborRow = typeof neighbors.$inferSelect
export type SessionRow = typeof sessions.$inferSelect
export type AnnouncementRow = typeof announcements.$inferSelect
export type NextHopRow = typeof nextHops.$inferSelect
export type ListRow = typeof prefixLists.$inferSelect
export type MapRow = typeof routeMaps.$inferSelect
