/** Everything a refused call must leave as it was: the rows of every table, and what the kernel holds. */
import { sql } from 'drizzle-orm'
import type { BuiltAgent } from '../build.ts'

export interface Snapshot {
  rows: Record<string, unknown[]>
  entries: unknown[]
}

/** What moves by the clock is left out: the licence's marks, and when traffic was read last. */
export function snapshot({ agent, plane }: Pick<BuiltAgent, 'agent' | 'plane'>): Snapshot {
  const { read } = agent.store
  const tables = read.all<{ name: string }>(sql`select name from sqlite_master where type = 'table' order by name`)
  const rows = tables.map(({ name }) => {
    const all = read.all<Record<string, unknown>>(sql.raw(`select * from "${name}" order by 1`))
    if (name === 'core_marks') return [name, all.filter((row) => !String(row.name).startsWith('license_'))] as const
    return [name, name === 'flows_readings' ? all.map(({ at: _, ...row }) => row) : all] as const
  })
  return {
    rows: Object.fromEntries(rows),
    entries: [...plane.entries.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
  }
}
