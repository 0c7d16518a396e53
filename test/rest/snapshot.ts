/** Everything a refused call must leave as it was: the rows of every table, and what the kernel holds. */
import { sql } from 'drizzle-orm'
import type { BuiltAgent } from '../build.ts'

export interface Snapshot {
  rows: Record<string, unknown[]>
  entries: unknown[]
}

/** The marks of the licence clock move by themselves and are left out. */
export function snapshot({ agent, plane }: Pick<BuiltAgent, 'agent' | 'plane'>): Snapshot {
  const { read } = agent.store
  const tables = read.all<{ name: string }>(sql`select name from sqlite_master where type = 'table' order by name`)
  const rows = tables.map(({ name }) => {
    const all = read.all<Record<string, unknown>>(sql.raw(`select * from "${name}" order by 1`))
    return [name, name === 'core_marks' ? all.filter((row) => !String(row.name).startsWith('license_')) : all] as const
  })
  return {
    rows: Object.fromEntries(rows),
    entries: [...plane.entries.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
  }
}
