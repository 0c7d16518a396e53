/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, gt, ne, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { ceilings, limits, members, pools, quotas, shapes, shards } from './tables.ts'

const given = sql.placeholder

/** What holds for MACs, with all that their classes follow from. */
const everythingOf = (db: Db) =>
  db
    .select({ shape: shapes, limit: limits, member: members, quota: quotas, pool: { total: pools.total } })
    .from(shapes)
    .leftJoin(limits, eq(limits.mac, shapes.mac))
    .leftJoin(members, eq(members.mac, shapes.mac))
    .leftJoin(quotas, eq(quotas.mac, shapes.mac))
    .leftJoin(pools, eq(pools.number, shapes.pool))

export type WholeShape = Awaited<ReturnType<ReturnType<typeof everythingOf>['all']>>[number]

export const queries = prepared((db) => ({
  limit: db
    .select()
    .from(limits)
    .where(eq(limits.id, given('id')))
    .prepare(),
  limitOf: db
    .select()
    .from(limits)
    .where(eq(limits.mac, given('mac')))
    .prepare(),
  limitPage: db
    .select()
    .from(limits)
    .where(gt(limits.seq, given('after')))
    .orderBy(asc(limits.seq))
    .limit(PAGE)
    .prepare(),
  limitCount: db.select({ many: count() }).from(limits).prepare(),
  /** Any that names the pool. */
  limitIn: db
    .select({ id: limits.id })
    .from(limits)
    .where(sql`${limits.poolId} <> '' and ${limits.poolId} = ${given('pool')}`)
    .limit(1)
    .prepare(),
  limitInPage: db
    .select({ seq: limits.seq, mac: limits.mac, rate: limits.rate })
    .from(limits)
    .where(sql`${limits.poolId} <> '' and ${limits.poolId} = ${given('pool')} and ${limits.seq} > ${given('after')}`)
    .orderBy(asc(limits.seq))
    .limit(PAGE)
    .prepare(),
  guaranteed: db
    .select({ sum: sql<number>`coalesce(sum(guaranteed_bps), 0)`.mapWith(Number) })
    .from(
      db
        .select({ guaranteed_bps: sql`${limits.guaranteed}`.as('guaranteed_bps') })
        .from(limits)
        .where(sql`${limits.poolId} <> '' and ${limits.poolId} = ${given('pool')}`)
        .as('of_pool'),
    )
    .prepare(),
  pool: db
    .select()
    .from(pools)
    .where(eq(pools.id, given('id')))
    .prepare(),
  poolNumbered: db
    .select()
    .from(pools)
    .where(eq(pools.number, given('number')))
    .prepare(),
  pools: db.select().from(pools).orderBy(asc(pools.seq)).prepare(),
  poolCount: db.select({ many: count() }).from(pools).prepare(),
  poolMax: db.select({ number: sql<number | null>`max(number)` }).from(pools).prepare(),
  poolGap: db
    .select({ number: sql<number>`number + 1` })
    .from(pools)
    .where(sql`not exists (select 1 from bandwidth_pools as next where next.number = bandwidth_pools.number + 1)`)
    .orderBy(pools.number)
    .limit(1)
    .prepare(),
  member: db
    .select()
    .from(members)
    .where(eq(members.mac, given('mac')))
    .prepare(),
  memberPage: db
    .select({ mac: members.mac, rate: members.rate })
    .from(members)
    .where(and(eq(members.poolId, given('pool')), gt(members.mac, given('after'))))
    .orderBy(asc(members.mac))
    .limit(PAGE)
    .prepare(),
  removeMember: db
    .delete(members)
    .where(eq(members.mac, given('mac')))
    .prepare(),
  quotaOf: db
    .select()
    .from(quotas)
    .where(eq(quotas.mac, given('mac')))
    .prepare(),
  quota: db
    .select()
    .from(quotas)
    .where(eq(quotas.id, given('id')))
    .prepare(),
  quotaNumbered: db
    .select()
    .from(quotas)
    .where(eq(quotas.seq, given('seq')))
    .prepare(),
  quotaPage: db
    .select()
    .from(quotas)
    .where(gt(quotas.seq, given('after')))
    .orderBy(asc(quotas.seq))
    .limit(PAGE)
    .prepare(),
  quotaCount: db.select({ many: count() }).from(quotas).prepare(),
  quotaCounts: db.select({ status: quotas.status, many: count() }).from(quotas).groupBy(quotas.status).prepare(),
  slotMax: db.select({ slot: sql<number | null>`max(slot)` }).from(quotas).prepare(),
  slotFirst: db.select({ seq: quotas.seq }).from(quotas).where(eq(quotas.slot, 0)).prepare(),
  slotGap: db
    .select({ slot: sql<number>`slot + 1` })
    .from(quotas)
    .where(sql`not exists (select 1 from bandwidth_quotas as next where next.slot = bandwidth_quotas.slot + 1)`)
    .orderBy(quotas.slot)
    .limit(1)
    .prepare(),
  countUsed: db
    .update(quotas)
    .set({ used: sql`${given('used')}`, month: sql`${given('month')}`, status: sql`${given('status')}` })
    .where(eq(quotas.seq, given('seq')))
    .prepare(),
  shape: db
    .select()
    .from(shapes)
    .where(eq(shapes.mac, given('mac')))
    .prepare(),
  wholeShape: everythingOf(db)
    .where(eq(shapes.mac, given('mac')))
    .prepare(),
  wholeShapePage: everythingOf(db)
    .where(gt(shapes.mac, given('after')))
    .orderBy(asc(shapes.mac))
    .limit(PAGE)
    .prepare(),
  shapeMax: db.select({ number: sql<number | null>`max(number)` }).from(shapes).prepare(),
  shapeFirst: db.select({ mac: shapes.mac }).from(shapes).where(eq(shapes.number, 1)).prepare(),
  shapeGap: db
    .select({ number: sql<number>`number + 1` })
    .from(shapes)
    .where(sql`not exists (select 1 from bandwidth_shapes as next where next.number = bandwidth_shapes.number + 1)`)
    .orderBy(shapes.number)
    .limit(1)
    .prepare(),
  shapesInShard: db
    .select({ mac: shapes.mac })
    .from(shapes)
    .where(eq(shapes.shard, given('shard')))
    .limit(1)
    .prepare(),
  removeShape: db
    .delete(shapes)
    .where(eq(shapes.mac, given('mac')))
    .prepare(),
  shard: db
    .select()
    .from(shards)
    .where(eq(shards.shard, given('shard')))
    .prepare(),
  shards: db.select().from(shards).orderBy(asc(shards.shard)).prepare(),
  useShard: db
    .insert(shards)
    .values({ shard: given('shard') })
    .onConflictDoNothing()
    .prepare(),
  removeShard: db
    .delete(shards)
    .where(eq(shards.shard, given('shard')))
    .prepare(),
  ceiling: db.select().from(ceilings).where(ne(ceilings.gbps, 0)).prepare(),
  setCeiling: db
    .insert(ceilings)
    .values({ id: 1, gbps: given('gbps') })
    .onConflictDoUpdate({ target: ceilings.id, set: { gbps: sql`excluded.gbps` } })
    .prepare(),
}))
