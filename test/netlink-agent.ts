/**
 * The agent with an area that exists in tests only and stores whatever netlink entries it is given: run it as `main` of
 * startAgent. POST /api/v1/t {put: entries, drop: keys}; GET /api/v1/t answers the keys that are stored.
 */
import { sql } from 'drizzle-orm'
import { build } from '../core/app.ts'
import { type Change, type Db, defineArea } from '../core/area.ts'
import { controlSocket, frrPlaces, placesFrom, responderSocket } from '../core/environment.ts'
import { openLog } from '../core/observe/log.ts'
import { listenControl } from '../core/transport/listener.ts'
import { carryOut } from '../core/transport/mutation.ts'
import { openKernel } from '../dataplane/kernel.ts'
import type { NetlinkEntry } from '../dataplane/netlink/entries.ts'

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

const places = placesFrom(process.env)
const log = openLog('info')
const agent = await build({
  ...places,
  environment: process.env,
  log,
  openPlane: (options) =>
    openKernel({ ...options, bpfDir: places.bpfDir, responderSocket: responderSocket(places), frr: frrPlaces(places) }),
  only: ['node'],
  extraAreas: [area],
})
await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
log.info('ready')
