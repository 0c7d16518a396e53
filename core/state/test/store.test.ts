import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { openStore } from '../store.ts'

const modes = (dir: string) =>
  Object.fromEntries(readdirSync(dir).map((name) => [name, (statSync(join(dir, name)).mode & 0o777).toString(8)]))
const PRIVATE = { 'stratum.db': '600', 'stratum.db-wal': '600', 'stratum.db-shm': '600' }

t.test('nobody else may read the store, whatever the umask and whoever made it', async (t) => {
  const dir = scratch(t)
  chmodSync(dir, 0o755)
  const before = process.umask(0)
  t.teardown(() => process.umask(before))
  const first = openStore(dir)
  first.write.run('create table things (id integer)')
  t.same(modes(dir), PRIVATE)
  for (const name of readdirSync(dir)) chmodSync(join(dir, name), 0o644)
  // While the first is open, as an agent that is just ending may be.
  const second = openStore(dir)
  t.same(modes(dir), PRIVATE)
  second.close()
  first.close()
  t.same(modes(dir), { 'stratum.db': '600' })
})

const CHECKPOINT = 'PRAGMA wal_checkpoint(NOOP)'
const PAGE = 4096

for (const pages of [1200, 6000]) {
  t.test(`what ${pages} pages of one commit are in the WAL goes into the database by itself`, async (t) => {
    const dir = scratch(t)
    const store = openStore(dir)
    t.teardown(store.close)
    store.write.run('create table things (id integer primary key, what blob)')
    store.begin()
    for (let n = 0; n < pages; n++) store.write.run(`insert into things (what) values (zeroblob(${PAGE}))`)
    store.commit()
    const state = () => store.write.get<{ log: number; checkpointed: number }>(CHECKPOINT)
    for (let left = () => state().log - state().checkpointed; left() > 0; ) await new Promise(setImmediate)
    t.ok(statSync(join(dir, 'stratum.db')).size >= pages * PAGE)
    store.begin()
    store.write.run('delete from things where id = 1')
    store.commit()
    t.ok(state().log < 100, 'it is begun anew')
    t.equal(store.read.get<{ n: number }>('select count(*) n from things').n, pages - 1)
  })
}

t.test('the WAL stays short, and who reads for long does not have each commit wait', async (t) => {
  const dir = scratch(t)
  const store = openStore(dir)
  t.teardown(store.close)
  store.write.run('create table things (id integer primary key, what blob)')
  const write = (commits: number) => {
    for (let n = 0; n < commits; n++) {
      store.begin()
      store.write.run(`insert or replace into things values (${n % 10}, zeroblob(${20 * PAGE}))`)
      store.commit()
    }
  }
  const wal = () => statSync(join(dir, 'stratum.db-wal')).size / PAGE
  write(200)
  t.ok(wal() < 1500, `${wal()} pages`)
  const reader = store.snapshot()
  reader.db.get('select 1 from things')
  write(200)
  t.ok(wal() > 3000, 'it must keep what the reader sees')
  reader.close()
  for (const log = () => store.write.get<{ log: number }>(CHECKPOINT).log; log() > 1500; ) {
    write(10)
    await new Promise(setImmediate)
  }
})

/** A folder of migrations that were written at `times`. */
function area(dir: string, ...times: number[]): string {
  const folder = join(dir, String(times.length), 'migrations')
  mkdirSync(join(folder, 'meta'), { recursive: true })
  const entries = times.map((when, idx) => ({ idx, version: '6', when, tag: `t${when}`, breakpoints: true }))
  writeFileSync(join(folder, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'sqlite', entries }))
  for (const when of times) writeFileSync(join(folder, `t${when}.sql`), `CREATE TABLE t${when} (id integer);`)
  return join(folder, '..')
}

t.test('a store that a later version has migrated is refused and stays as it is', async (t) => {
  const dir = scratch(t)
  const [old, now] = [area(dir, 1000), area(dir, 1000, 2000)]
  const open = (folder: string) => {
    const store = openStore(dir)
    try {
      store.migrate('x', folder)
      return store.read.all<{ name: string }>("select name from sqlite_master where name like 't%000' order by name")
    } finally {
      store.close()
    }
  }
  t.same(open(old), [{ name: 't1000' }])
  t.same(open(now), [{ name: 't1000' }, { name: 't2000' }], 'what is older is migrated')
  t.throws(() => open(old), { message: /written by a later version \(its tables of x\): install that version again/ })
  t.same(open(now), [{ name: 't1000' }, { name: 't2000' }])
})
