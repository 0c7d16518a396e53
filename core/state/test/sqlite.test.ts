/** SQLite of the Node that runs this, and that of another: a node may change its Node in either direction. */
import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { NEWEST, NODES, nodeFolder } from '../../../scripts/nodes.ts'
import { scratch } from '../../../test/build.ts'
import { skipping } from '../../../test/required.ts'
import { Database, sqliteFor } from '../sqlite.ts'

const STORE = join(import.meta.dirname, '..', 'store.js')
const OLDEST = NODES[0]?.version ?? ''
/** A row with all that SQLite knows, of which integers beyond 2^53. */
const ROW = `(9007199254740993, 1.5, 'Zürich ' || char(0) || ' 測試', x'00ff', null)`

/** Runs `script` on another store of `dir`, by another process that is killed while the store is open. */
function onNode(node: string, dir: string, script: string): string {
  const source = `import { openStore } from ${JSON.stringify(STORE)}
    const store = openStore(${JSON.stringify(dir)})
    ${script}
    process.kill(process.pid, 'SIGKILL')`
  const { stdout, stderr } = spawnSync(node, ['--input-type=module', '-e', source], { encoding: 'utf8' })
  if (stderr !== '') throw new Error(stderr)
  return stdout
}

const CREATE = "store.write.run('create table things (i integer, r real, t text, b blob, n)')"
const WRITE = `store.begin(); store.write.run(${JSON.stringify(`insert into things values ${ROW}`)}); store.commit()`
const READ = `const rows = store.read.all('select cast(i as text) i, r, hex(t) t, hex(b) b, n from things')
  const [check] = store.read.all('pragma integrity_check')
  console.log(JSON.stringify({ rows, check }))`
const EXPECTED = { i: '9007199254740993', r: 1.5, t: '5AC3BC726963682000 20E6B8ACE8A9A6'.replace(' ', ''), b: '00FF' }

t.test('the module is the one that this Node can load', async (t) => {
  t.equal(sqliteFor('9'), 'better-sqlite3-12', 'Node 20')
  t.equal(sqliteFor('10'), 'better-sqlite3', 'Node 22.14')
  t.equal(sqliteFor('11'), 'better-sqlite3')
  const db = new Database(':memory:')
  t.same(db.prepare('select 1 as one').get(), { one: 1 })
  t.throws(() => db.prepare('selec'), { code: 'SQLITE_ERROR' })
  db.close()
})

t.test(
  'a store that one Node left in the middle is opened and written by the other, and again by the first',
  async (t) => {
    const [old, recent] = [OLDEST, NEWEST].map((version) => join(nodeFolder(version), 'bin/node')) as [string, string]
    const missing = [old, recent].find((node) => !existsSync(node))
    if (missing !== undefined) return t.plan(0, skipping(`needs ${missing}: npm run setup -- --test`))
    for (const [first, second] of [
      [old, recent],
      [recent, old],
    ] as const) {
      const dir = scratch(t)
      onNode(first, dir, `${CREATE}\n${WRITE}`)
      t.ok(statSync(join(dir, 'stratum.db-wal')).size > 0, 'what was committed is in the WAL only')
      for (const [count, node] of [second, first, second].entries()) {
        const { rows, check } = JSON.parse(onNode(node, dir, `${READ}\n${WRITE}`))
        t.same(check, { integrity_check: 'ok' })
        t.equal(rows.length, count + 1)
        t.ok(rows.every((row: unknown) => JSON.stringify(row) === JSON.stringify({ ...EXPECTED, n: null })))
      }
    }
  },
)
