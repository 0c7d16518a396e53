/** SQL over the table of a collection. Names come from the code of areas, never from outside. */
import type Database from 'better-sqlite3'
import type { Db } from '../../area.ts'
import type { Collection, Row, Value } from '../../replication.ts'

/** The connection itself: statements over tables that are known only when the agent runs are not drizzle's. */
export const connectionOf = (db: Db): Database.Database => (db as Db & { $client: Database.Database }).$client

export const quoted = (name: string): string => `"${name}"`
export const listed = (names: readonly string[]): string => names.map(quoted).join(', ')

/** Whether a row is replicated, as SQL over rows that are called `alias` there. */
export const condition = ({ where }: Collection, alias: string): string =>
  where === undefined ? '1' : `(${where.replace(/\brow\./g, `${alias}.`)})`

/** The values of some columns. */
export const valuesOf = (row: Row, columns: readonly string[]): Value[] => columns.map((column) => row[column] ?? null)

/** Tells a row among those of its collection. */
export const keyOf = ({ key }: Collection, row: Row): string => JSON.stringify(valuesOf(row, key))

/** No two rows share it; undefined where a value is missing. */
export function shareOf(row: Row, columns: readonly string[]): string | undefined {
  const values = valuesOf(row, columns)
  return values.some((value) => value === null || value === '') ? undefined : JSON.stringify(values)
}

/** Exactly these columns. */
export const pick = (row: Row, columns: readonly string[]): Row =>
  Object.fromEntries(columns.map((column) => [column, row[column] ?? null]))

/** Statements of a connection by what they are for, prepared once. */
const known = new WeakMap<Db, Map<string, Database.Statement>>()

/** A prepared statement. Few texts are ever asked for: those of the collections. */
export function statement(db: Db, text: string): Database.Statement<Value[], Row> {
  const own = known.get(db) ?? new Map<string, Database.Statement>()
  known.set(db, own)
  const found = own.get(text) ?? connectionOf(db).prepare(text)
  own.set(text, found)
  return found as Database.Statement<Value[], Row>
}
