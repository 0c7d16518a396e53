import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const things = sqliteTable('AREA_things', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
})
