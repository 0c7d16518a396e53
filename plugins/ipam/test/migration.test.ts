/** Pools of networks get ids that no member of a cluster gives to a pool that others have as well. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import { createPool, FIRST_OWN } from '../offers.ts'

const PLUGINS = join(import.meta.dirname, '..', '..')

/** The migrations of an area up to some number, as an older build had them. */
function older(dir: string, area: string, count: number): string {
  const from = join(PLUGINS, area, 'migrations')
  const to = join(dir, area)
  mkdirSync(to)
  cpSync(from, join(to, 'migrations'), { recursive: true })
  const journal = join(to, 'migrations', 'meta', '_journal.json')
  const content = JSON.parse(readFileSync(journal, 'utf8')) as { entries: unknown[] }
  writeFileSync(journal, JSON.stringify({ ...content, entries: content.entries.slice(0, count) }))
  return to
}

t.test('an older store is brought over: ids of networks’ pools move, and what refers to them', async (t) => {
  const store = openStore(scratch(t))
  t.teardown(() => store.close())
  const dir = scratch(t)
  for (const area of ['ipam', 'networks']) store.migrate(area, older(dir, area, 2))
  const db = store.write
  const pool = (id: number, owner: string) =>
    db.run(sql`insert into ipam_pools (id, name, subnet, family, first, last, range_start, range_end, owner)
      values (${id}, 'p', '10.0.0.0/30', 4, '0a000000', '0a000003', '0a000001', '0a000002', ${owner})`)
  pool(1, '')
  pool(2, 'network net-1')
  pool(9, '')
  db.run(sql`delete from ipam_pools where id = 9`)
  for (const id of [1, 2]) {
    db.run(sql`insert into ipam_allocations (pool_id, tenant_id, ip) values (${id}, '', '0a000001')`)
    db.run(sql`insert into ipam_free values (${id}, '0a000002', '0a000002')`)
  }
  db.run(
    sql`insert into networks_networks (id, net, name, first, last, created_at, pool) values ('net-1', 1, 'n', 1, 2, '', 2)`,
  )
  for (const area of ['ipam', 'networks']) store.migrate(area, join(PLUGINS, area))

  const moved = FIRST_OWN + 2
  const ids = (text: string) => db.values<[number]>(sql.raw(text)).map(([id]) => id)
  t.same(ids('select id from ipam_pools order by id'), [1, moved])
  t.same(ids('select pool_id from ipam_allocations order by 1'), [1, moved])
  t.same(ids('select pool from ipam_free order by 1'), [1, moved])
  t.same(ids('select pool from networks_networks'), [moved])
  const make = (owner: string, subnet: string) => createPool(db, { name: `${subnet.slice(0, 4)}`, subnet }, owner).id
  t.equal(make('', '10.1.0.0/24'), 10, 'no id is used again')
  t.equal(make('network net-2', '10.2.0.0/24'), moved + 1)
  t.equal(make('', '10.3.0.0/24'), 11)
})

t.test('a store without pools begins at the beginning', async (t) => {
  const store = openStore(scratch(t))
  t.teardown(() => store.close())
  store.migrate('ipam', join(PLUGINS, 'ipam'))
  const make = (owner: string, subnet: string) => createPool(store.write, { name: 'new', subnet }, owner).id
  t.same([make('network net-1', '10.2.0.0/24'), make('', '10.1.0.0/24')], [FIRST_OWN + 1, 1])
})
