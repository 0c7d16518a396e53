import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** The outbox: what happened, in the order of the commits. `id` is gapless because it is assigned inside them. */
export const events = sqliteTable('core_events', {
  id: integer().primaryKey(),
  time: text().notNull(),
  type: text().notNull(),
  area: text().notNull(),
  resource: text().notNull(),
  actor: text().notNull(),
  requestId: text('request_id').notNull(),
  data: text().notNull(),
})

export const operatorKeys = sqliteTable('core_operator_keys', {
  id: text().primaryKey(),
  label: text().notNull(),
  hash: text().notNull(),
  createdAt: text('created_at').notNull(),
})

/** Single values: stream id, licence marks. */
export const marks = sqliteTable('core_marks', {
  name: text().primaryKey(),
  value: text().notNull(),
})
