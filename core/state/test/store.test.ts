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
