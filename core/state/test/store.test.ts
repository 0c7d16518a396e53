import { chmodSync, readdirSync, statSync } from 'node:fs'
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
