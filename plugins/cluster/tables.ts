import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** What this node is in a cluster; no row: it is in none. */
export const self = sqliteTable('cluster_self', {
  id: integer().primaryKey(),
  /**
   * `joining`: it was admitted and has not yet loaded what the members share. `recovering`: it goes on alone, and etcd gets
   * its rows anew; until it has them nothing that is shared changes.
   */
  mode: text({ enum: ['joining', 'member', 'recovering'] }).notNull(),
  node: text().notNull(),
  cluster: text().notNull(),
  address: text().notNull(),
  peerPort: integer('peer_port').notNull(),
  /** `<node>=<peer URL>,…` as it was at the start; etcd keeps the members from then on. */
  initialCluster: text('initial_cluster').notNull(),
  /** Up to which of etcd's revisions the replicated rows are as the cluster has them. */
  revision: integer().notNull().default(0),
  /** What is replicated, as the rows were taken over last; see Replica.shares. */
  shares: text().notNull().default(''),
  /** Another member that had come was seen: when none is left, this node goes on by itself. */
  hadOthers: integer('had_others', { mode: 'boolean' }).notNull().default(false),
  /** ISO 8601: until then a node that comes by a code may call; '': nobody but members may. */
  newcomersUntil: text('newcomers_until').notNull().default(''),
})

/** Which revision of etcd each replicated row is of, each serial, and the last change of this node (`/change/`). */
export const rows = sqliteTable('cluster_rows', {
  key: text().primaryKey(),
  revision: integer().notNull(),
})

/** Revisions that are transactions of this node, which the watch will tell of once more. */
export const own = sqliteTable('cluster_own', { revision: integer().primaryKey() })

/** The other members as they were seen last, for the time when nobody can be asked. */
export const members = sqliteTable('cluster_members', {
  node: text().primaryKey(),
  address: text().notNull(),
  voter: integer({ mode: 'boolean' }).notNull(),
  /** ISO 8601. */
  lastSeen: text('last_seen'),
})

export type Self = typeof self.$inferSelect
export type MemberRow = typeof members.$inferSelect
