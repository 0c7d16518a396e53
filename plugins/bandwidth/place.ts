/** Which class of the kernel a MAC has: kept while it lies in the same pool, because a class cannot be moved. */
import type { Db, Ref } from '../../core/area.ts'
import { limitReached } from '../../core/errors.ts'
import { shardOf, shardOfPool } from '../../dataplane/shaping/classes.ts'
import { QUOTA_ROWS, SHAPE_NUMBERS } from '../../dataplane/shaping/numbers.ts'
import { atOnce, type Steps } from '../../dataplane/slices.ts'
import { queries } from './queries.ts'
import { pools, shapes } from './tables.ts'

const AREA = 'bandwidth'
export const macRef = (mac: string): Ref => ({ area: AREA, id: `mac/${mac}` })
export const poolRef = (number: number): Ref => ({ area: AREA, id: `pool/${number}` })
export const shardRef = (shard: number): Ref => ({ area: AREA, id: `shard/${shard}` })
export const CEILING_REF: Ref = { area: AREA, id: 'ceiling' }

/**
 * Brings the place of a MAC to what is stored of it, and tells what may render otherwise now.
 * @throws ApiError 409 when there is no class left
 */
export function place(tx: Db, mac: string): Ref[] {
  const { shape, limitOf, member, quotaOf, pool, removeShape, useShard } = queries(tx)
  const before = shape.get({ mac })
  const [limit, membership, quota] = [limitOf.get({ mac }), member.get({ mac }), quotaOf.get({ mac })]
  if (!limit && !membership && !quota) {
    removeShape.run({ mac })
    return [macRef(mac)]
  }
  const poolId = limit?.poolId || membership?.poolId
  const inPool = poolId ? (pool.get({ id: poolId })?.number ?? 0) : 0
  const number = before?.pool === inPool ? before.number : freeNumber(tx)
  const hasClass = limit || membership || (quota?.enforced && quota.action === 'throttle')
  const shard = hasClass ? shardOf({ number, pool: inPool }) : -1
  const row = { mac, number, pool: inPool, shard }
  tx.insert(shapes).values(row).onConflictDoUpdate({ target: shapes.mac, set: row }).run()
  if (shard < 0) return [macRef(mac)]
  useShard.run({ shard })
  return [shardRef(shard), macRef(mac)]
}

/**
 * `place` for several; nothing is told twice. A number that one gives back is no other's within the change, because its class
 * still stands in the kernel: first go those that keep a row.
 */
export function* placing(tx: Db, macs: Iterable<string>): Steps<Ref[]> {
  const { limitOf, member, quotaOf } = queries(tx)
  const refs = new Map<string, Ref>()
  const placed = (mac: string) => {
    for (const ref of place(tx, mac)) refs.set(ref.id, ref)
  }
  const leaving: string[] = []
  for (const mac of new Set(macs)) {
    if (limitOf.get({ mac }) || member.get({ mac }) || quotaOf.get({ mac })) placed(mac)
    else leaving.push(mac)
    yield
  }
  for (const mac of leaving) {
    placed(mac)
    yield
  }
  return [...refs.values()]
}

/** `placing` of a few. */
export const placeAll = (tx: Db, macs: Iterable<string>): Ref[] => atOnce(placing(tx, macs))

/** A new pool's number, and what renders otherwise with it. @throws ApiError 409 */
export function placePool(tx: Db): { number: number; touch: Ref[] } {
  const { poolMax, poolNumbered, poolGap, useShard } = queries(tx)
  const number = free(1, SHAPE_NUMBERS, poolMax.get()?.number, {
    isFirstFree: () => poolNumbered.get({ number: 1 }) === undefined,
    gap: () => poolGap.get()?.number,
  })
  if (number === undefined) throw limitReached('bandwidth pools', SHAPE_NUMBERS)
  const shard = shardOfPool({ number })
  useShard.run({ shard })
  return { number, touch: [shardRef(shard), poolRef(number)] }
}

function freeNumber(tx: Db): number {
  const { shapeMax, shapeGap, shapeFirst } = queries(tx)
  const number = free(1, SHAPE_NUMBERS, shapeMax.get()?.number, {
    isFirstFree: () => shapeFirst.get() === undefined,
    gap: () => shapeGap.get()?.number,
  })
  if (number === undefined) throw limitReached('MACs with a limit, a pool or a quota', SHAPE_NUMBERS)
  return number
}

/** Where a new quota is counted. @throws ApiError 409 */
export function freeSlot(tx: Db): number {
  const { slotMax, slotGap, slotFirst } = queries(tx)
  const slot = free(0, QUOTA_ROWS - 1, slotMax.get()?.slot, {
    isFirstFree: () => slotFirst.get() === undefined,
    gap: () => slotGap.get()?.slot,
  })
  if (slot === undefined) throw limitReached('quotas', QUOTA_ROWS)
  return slot
}

/** The number after the highest; the search for one that was given back takes longer, and is for the end of the range. */
function free(
  first: number,
  last: number,
  highest: number | null | undefined,
  { isFirstFree, gap }: { isFirstFree(): boolean; gap(): number | undefined },
): number | undefined {
  if (highest === null || highest === undefined) return first
  if (highest < last) return highest + 1
  if (isFirstFree()) return first
  const found = gap()
  return found !== undefined && found <= last ? found : undefined
}

/** Pairs of devices that nothing lies on any longer. */
export function idleShards(db: Db): number[] {
  const { shards, shapesInShard } = queries(db)
  const all = shards.all().filter(({ shard }) => shapesInShard.get({ shard }) === undefined)
  if (all.length === 0) return []
  const byPools = new Set(db.select({ number: pools.number }).from(pools).all().map(shardOfPool))
  return all.map(({ shard }) => shard).filter((shard) => !byPools.has(shard))
}
