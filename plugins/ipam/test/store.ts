/** The tables of IPAM in a store of their own, without an agent. */
import { join } from 'node:path'
import type { Db } from '../../../core/area.ts'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { textOf } from '../address.ts'
import { free } from '../tables.ts'

/** Inside a transaction that is never committed, so that thousands of steps cost no disk. */
export function database(t: Scope): Db {
  const store = openStore(scratch(t))
  t.teardown(() => {
    store.rollback()
    store.close()
  })
  store.migrate('ipam', join(import.meta.dirname, '..'))
  store.begin()
  return store.write
}

/** The intervals of a pool as `first-last`, ascending. */
export function intervals(db: Db, pool: number): string[] {
  const rows = db.select().from(free).all()
  return rows
    .filter((row) => row.pool === pool)
    .sort((a, b) => (a.first < b.first ? -1 : 1))
    .map(({ first, last }) => `${textOf(first)}-${textOf(last)}`)
}
