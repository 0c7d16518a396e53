/** What the members hold, read from their stores themselves, as all of them read it. */
import { join } from 'node:path'
import type Sqlite from 'better-sqlite3'
import type { Collection, Row } from '../../core/replication.ts'
import { Database } from '../../core/state/sqlite.ts'
import float from '../../plugins/float/index.ts'
import ipam from '../../plugins/ipam/index.ts'
import tenants from '../../plugins/tenants/index.ts'
import vxlan from '../../plugins/vxlan/index.ts'
import type { ClusterNode } from '../cluster.ts'

export const collections: readonly Collection[] = [tenants, ipam, vxlan, float].flatMap(
  ({ area }) => area.replicates ?? [],
)

/** Rows of each collection, in the order of their keys. */
export type Rows = ReadonlyMap<string, readonly Row[]>

export function rowsAt({ id, agent }: Pick<ClusterNode, 'id' | 'agent'>): Rows {
  const db = new Database(join(agent.stateDir, 'stratum.db'), { readonly: true, timeout: 20_000 })
  try {
    return db.transaction(
      () => new Map(collections.map((collection) => [collection.name, rowsOf(db, collection, id)])),
    )()
  } finally {
    db.close()
  }
}

function rowsOf(db: Sqlite.Database, { name, columns, key, where = 'true', outward }: Collection, self: string): Row[] {
  const named = (list: readonly string[]) => list.map((column) => `row."${column}"`).join()
  const rows = db
    .prepare(`SELECT ${named(columns)} FROM ${name} row WHERE ${where} ORDER BY ${named(key)}`)
    .all() as Row[]
  return outward ? rows.map((row) => outward(row, self)) : rows
}

/** The first row of which two members do not have the same; undefined: all hold the same. */
export function difference(nodes: readonly ClusterNode[]): string | undefined {
  const [first, ...others] = nodes.map((node) => ({ node, rows: rowsAt(node) }))
  for (const { node, rows } of others) {
    for (const { name } of collections) {
      const [theirs, ours] = [rows.get(name) ?? [], first?.rows.get(name) ?? []].map(
        (list) => new Set(list.map((row) => JSON.stringify(row))),
      )
      const missing = [...(ours ?? [])].find((row) => !theirs?.has(row))
      const more = [...(theirs ?? [])].find((row) => !ours?.has(row))
      if (missing ?? more) return `${name}: ${first?.node.id} has ${missing ?? 'not'}, ${node.id} has ${more ?? 'not'}`
    }
  }
  return undefined
}
