/** Stores of members, held against what etcd has: two that hold the same can lack the same, and one can know a wrong revision of a row. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Row } from '../../core/replication.ts'
import { Database } from '../../core/state/sqlite.ts'
import { CHANGE, changeKey, ROWS, readRowKey, rowKey, SERIAL } from '../../plugins/cluster/keys.ts'
import type { ClusterNode } from '../cluster.ts'
import { collections, rowsAt } from './stores.ts'

const PROGRAM = fileURLToPath(new URL('etcd-keys.js', import.meta.url))
/** What `cluster_client_port` is unless it is set. */
const PORT = 7075

interface Kept {
  key: string
  value: string
  revision: number
}

/** The first thing that a member has otherwise than etcd; undefined: nothing. */
export function differenceFromEtcd(nodes: readonly ClusterNode[]): string | undefined {
  const [first] = nodes
  if (first === undefined) return undefined
  const { ns, agent, id } = first
  const args = ['--unset=NODE_OPTIONS', process.execPath, PROGRAM, agent.stateDir, id, String(PORT)]
  const keys = JSON.parse(ns.run('env', ...args)) as Kept[]
  for (const node of nodes) for (const found of differencesAt(node, keys)) return `${node.id} ${found}`
  return undefined
}

function* differencesAt(node: ClusterNode, all: readonly Kept[]): Generator<string> {
  const own = changeKey(node.id)
  const kept = all.filter(({ key }) => key.startsWith(ROWS) || key.startsWith(SERIAL) || key === own)
  const rows = new Map<string, Row>()
  for (const [name, list] of rowsAt(node)) {
    const collection = collections.find((one) => one.name === name)
    if (collection) for (const row of list) rows.set(rowKey(collection, row), row)
  }
  const revisions = revisionsAt(node)
  for (const { key, value, revision } of kept) {
    const known = revisions.get(key)
    revisions.delete(key)
    if (known !== revision) yield `knows revision ${known} of ${key}, which is of ${revision}`
    if (!key.startsWith(ROWS)) continue
    const row = rows.get(key)
    rows.delete(key)
    const { columns = [] } = collections.find(({ name }) => name === readRowKey(key).collection) ?? {}
    const told = JSON.parse(value) as Row
    if (row === undefined || columns.some((column) => row[column] !== told[column])) {
      yield `has ${JSON.stringify(row)} for ${key}, which is ${value}`
    }
  }
  for (const key of rows.keys()) yield `has ${key}, which is gone`
  for (const key of revisions.keys())
    yield `knows a revision of ${key}, which is ${key.startsWith(CHANGE) ? 'not its own' : 'gone'}`
}

function revisionsAt({ agent }: ClusterNode): Map<string, number> {
  const db = new Database(join(agent.stateDir, 'stratum.db'), { readonly: true, timeout: 20_000 })
  try {
    const rows = db.prepare('SELECT key, revision FROM cluster_rows').all() as { key: string; revision: number }[]
    return new Map(rows.map(({ key, revision }) => [key, revision]))
  } finally {
    db.close()
  }
}
