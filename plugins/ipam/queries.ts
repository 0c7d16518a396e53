/** The statements of IPAM, prepared once per connection. */
import { and, asc, desc, eq, getTableColumns, gt, lte, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { type AllocationRow, allocations, counters, free, type PoolRow, pools } from './tables.ts'

/** Rows that one statement of a long deletion takes. */
export const PORTION = 500

const held = <T extends object>(columns: T, left = '') =>
  Object.fromEntries(
    Object.keys(columns)
      .filter((name) => name !== left)
      .map((name) => [name, sql.placeholder(name)]),
  )
// Drizzle wants each column by name; a placeholder stands for any value.
const poolValues = held(getTableColumns(pools)) as unknown as PoolRow
const allocationValues = held(getTableColumns(allocations), 'id') as unknown as Omit<AllocationRow, 'id'>
const { placeholder } = sql
const below = and(
  eq(pools.tenantId, placeholder('tenant')),
  eq(pools.family, placeholder('family')),
  lte(pools.first, placeholder('last')),
)

export const queries = prepared((db) => ({
  pool: db
    .select()
    .from(pools)
    .where(eq(pools.id, placeholder('id')))
    .prepare(),
  poolPage: db
    .select()
    .from(pools)
    .where(gt(pools.id, placeholder('after')))
    .orderBy(asc(pools.id))
    .limit(PAGE)
    .prepare(),
  poolPageOf: db
    .select()
    .from(pools)
    .where(and(eq(pools.tenantId, placeholder('tenant')), gt(pools.id, placeholder('after'))))
    .orderBy(asc(pools.id))
    .limit(PAGE)
    .prepare(),
  /**
   * Shared pools of a tenant never overlap each other, nor do those of this node, so of either that begin before `last` only
   * the highest can reach beyond `first`.
   */
  sharedBelow: db.select().from(pools).where(and(below, sql`owner = ''`)).orderBy(desc(pools.first)).limit(1).prepare(),
  ownBelow: db.select().from(pools).where(and(below, sql`owner <> ''`)).orderBy(desc(pools.first)).limit(1).prepare(),
  /** The pool of a tenant, or the operator's, with this name; pools of networks have the networks' names and do not count. */
  poolNamed: db
    .select({ id: pools.id })
    .from(pools)
    .where(and(eq(pools.tenantId, placeholder('tenant')), eq(pools.name, placeholder('name')), sql`owner = ''`))
    .limit(1)
    .prepare(),
  directPools: db.select({ count: sql<number>`count(*)` }).from(pools).where(sql`owner = ''`).prepare(),
  directPoolsOf: db
    .select({ count: sql<number>`count(*)` })
    .from(pools)
    .where(and(eq(pools.tenantId, placeholder('tenant')), sql`owner = ''`))
    .prepare(),
  lastId: db
    .select({ value: counters.value })
    .from(counters)
    .where(eq(counters.name, placeholder('name')))
    .prepare(),
  /** An id is in use; never goes back. */
  reached: db
    .insert(counters)
    .values({ name: placeholder('name'), value: placeholder('value') })
    .onConflictDoUpdate({ target: counters.name, set: { value: sql`max(value, excluded.value)` } })
    .prepare(),
  addPool: db.insert(pools).values(poolValues).prepare(),
  removePool: db
    .delete(pools)
    .where(eq(pools.id, placeholder('id')))
    .prepare(),

  allocation: db
    .select()
    .from(allocations)
    .where(and(eq(allocations.poolId, placeholder('pool')), eq(allocations.ip, placeholder('ip'))))
    .prepare(),
  allocationPage: db
    .select()
    .from(allocations)
    .where(gt(allocations.id, placeholder('after')))
    .orderBy(asc(allocations.id))
    .limit(PAGE)
    .prepare(),
  allocationPageOf: db
    .select()
    .from(allocations)
    .where(and(eq(allocations.tenantId, placeholder('tenant')), gt(allocations.id, placeholder('after'))))
    .orderBy(asc(allocations.id))
    .limit(PAGE)
    .prepare(),
  addressesOf: db
    .select({ ip: allocations.ip })
    .from(allocations)
    .where(and(eq(allocations.poolId, placeholder('pool')), gt(allocations.ip, placeholder('ip'))))
    .orderBy(asc(allocations.ip))
    .limit(PORTION)
    .prepare(),
  directAllocationsOf: db
    .select({ count: sql<number>`count(*)` })
    .from(allocations)
    .where(and(eq(allocations.tenantId, placeholder('tenant')), sql`owner = ''`))
    .prepare(),
  addAllocation: db.insert(allocations).values(allocationValues).prepare(),
  removeAllocation: db
    .delete(allocations)
    .where(eq(allocations.id, placeholder('id')))
    .prepare(),
  clearAllocations: db
    .delete(allocations)
    .where(sql`rowid in (select rowid from ipam_allocations where pool_id = ${placeholder('pool')} limit ${PORTION})`)
    .prepare(),

  lowestFree: db
    .select()
    .from(free)
    .where(eq(free.pool, placeholder('pool')))
    .orderBy(asc(free.first))
    .limit(1)
    .prepare(),
  /** The interval that begins at `address` or next below it. */
  freeAtOrBelow: db
    .select()
    .from(free)
    .where(and(eq(free.pool, placeholder('pool')), lte(free.first, placeholder('address'))))
    .orderBy(desc(free.first))
    .limit(1)
    .prepare(),
  freeAt: db
    .select()
    .from(free)
    .where(and(eq(free.pool, placeholder('pool')), eq(free.first, placeholder('address'))))
    .prepare(),
  addFree: db
    .insert(free)
    .values({ pool: placeholder('pool'), first: placeholder('first'), last: placeholder('last') })
    .prepare(),
  removeFree: db
    .delete(free)
    .where(and(eq(free.pool, placeholder('pool')), eq(free.first, placeholder('first'))))
    .prepare(),
  clearFree: db
    .delete(free)
    .where(sql`rowid in (select rowid from ipam_free where pool = ${placeholder('pool')} limit ${PORTION})`)
    .prepare(),
}))
