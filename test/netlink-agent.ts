/**
 * The agent with an area that exists in tests only and stores whatever netlink entries it is given: run it as `main` of
 * startAgent. POST /api/v1/t {put: entries, drop: keys}; GET /api/v1/t answers the keys that are stored.
 */
import { sql } from 'drizzle-orm'
import { type Change, type Db, defineArea } from '../core/area.ts'
import { carryOut } from '../core/transport/mutation.ts'
import type { NetlinkEntry } from '../dataplane/netlink/entries.ts'
import { serveAgent } from './agent-with.ts'

interface Given {
  put?: NetlinkEntry[]
  drop?: string[]
}

const stored = (db: Db): NetlinkEntry[] =>
  db.all<{ entry: string }>(sql`SELECT entry FROM t_entries ORDER BY key`).map(({ entry }) => JSON.parse(entry))

function store(tx: Db, { put = [], drop = [] }: Given): Change<object> {
  for (const entry of put) {
    tx.run(sql`INSERT OR REPLACE INTO t_entries VALUES (${entry.key}, ${JSON.stringify(entry)})`)
  }
  for (const key of drop) tx.run(sql`DELETE FROM t_entries WHERE key = ${key}`)
  const keys = [...put.map(({ key }) => key), ...drop]
  return { result: { status: 'updated' }, touch: keys.map((id) => ({ area: 't', id })), events: [] }
}

const area = defineArea(import.meta.url, {
  name: 't',
  prefixes: ['/t'],
  netlink: { owner: 250 },
  requires: ['netlink'],
  routes(app) {
    app.agent.store.write.run(sql`CREATE TABLE IF NOT EXISTS t_entries (key TEXT PRIMARY KEY, entry TEXT NOT NULL)`)
    app.post('/t', (request, reply) => carryOut(request, reply, 't', (tx) => store(tx, request.body as Given)))
    app.get('/t', () => ({ keys: stored(app.agent.store.read).map(({ key }) => key) }))
  },
  desired: {
    all: (db) => stored(db),
    one: (db, id) => stored(db).filter(({ key }) => key === id),
  },
})

await serveAgent({ only: ['node'], extraAreas: [area] })
