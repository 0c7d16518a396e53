/** Which HTB classes an entry asks for. Pure. */
import type { HtbClass } from '../netlink/tc.ts'
import { type ClassState, leafHandle, ticks } from '../netlink/tc.ts'
import type { RatePool, Rates, Shape } from './entries.ts'
import { SHAPE_POOL, SHAPE_SHARDS, SHAPE_SLOW } from './numbers.ts'

export type Way = 'up' | 'down'
export const WAYS: readonly Way[] = ['up', 'down']

/** A class and where it is. */
export interface Placed extends HtbClass {
  shard: number
  way: Way
}

/** What a class may send of its own whose share is what others leave: HTB takes no less. */
const LEAST = 1
const BURST_SECONDS = 0.01
const LEAST_BURST = 15_000
const FRAME = 1600
/** What waits at most: longer only makes latency, and shorter starves TCP. */
const QUEUE_SECONDS = 0.05
const LEAST_QUEUE = 30_000
/** More than any device carries: a class that is about to go holds nothing back. */
const UNLIMITED = 1e11

const bytesOf = (bits: number): number => Math.max(LEAST, Math.floor(bits / 8))
const burstOf = (rate: number): number => Math.max(LEAST_BURST, Math.ceil(rate * BURST_SECONDS))
const queueOf = (rate: number): number => Math.min(0xffffffff, Math.max(LEAST_QUEUE, Math.ceil(rate * QUEUE_SECONDS)))

/** All classes of a pool are in one HTB; others are spread. */
export const shardOf = ({ number, pool = number }: { number: number; pool?: number }): number =>
  (pool || number) % SHAPE_SHARDS
export const shardOfPool = ({ number }: Pick<RatePool, 'number'>): number => number % SHAPE_SHARDS

export function poolClasses(pool: RatePool): Placed[] {
  const rate = bytesOf(pool.rate)
  const minor = SHAPE_POOL + pool.number
  const same = { shard: shardOfPool(pool), minor, parent: 0, rate, ceil: rate }
  return WAYS.map((way) => ({ ...same, way, burst: burstOf(rate), ceilBurst: burstOf(rate) }))
}

export function shapeClasses(shape: Shape): Placed[] {
  const { number, pool, quota } = shape
  const parent = pool === 0 ? 0 : SHAPE_POOL + pool
  const at = { shard: shardOf(shape), parent }
  return WAYS.flatMap((way) => {
    const rates = shape[way]
    const limit = rates ? [{ ...at, way, minor: number, ...limited(rates, pool !== 0) }] : []
    if (quota?.action !== 'throttle') return limit
    const slow: Rates = { rate: Math.min(quota.throttle, rates?.rate ?? quota.throttle), burst: 0, guaranteed: 0 }
    return [...limit, { ...at, way, minor: SHAPE_SLOW + number, ...limited(slow, pool !== 0) }]
  })
}

/** Whether any class is asked for. */
export const hasClass = ({ up, down, quota }: Shape): boolean =>
  up !== undefined || down !== undefined || quota?.action === 'throttle'

/** In a pool a class has what it is guaranteed and borrows the rest; alone it has all, because there is nobody to ask. */
function limited({ rate, burst, guaranteed }: Rates, borrows: boolean): Omit<HtbClass, 'minor' | 'parent'> {
  const ceil = bytesOf(rate)
  const ceilBurst = Math.max(FRAME, burst || burstOf(ceil))
  const queue = queueOf(ceil)
  if (!borrows) return { rate: ceil, ceil, burst: ceilBurst, ceilBurst, queue }
  const own = guaranteed > 0 ? Math.min(ceil, bytesOf(guaranteed)) : LEAST
  return { rate: own, ceil, burst: guaranteed > 0 ? burstOf(own) : FRAME, ceilBurst, queue }
}

/** The same class while it is emptied. */
export const opened = (it: Placed): Placed => ({ ...it, rate: UNLIMITED, ceil: UNLIMITED })

/** A class of which only the place is known, while it is emptied. */
export const openedAt = ({ shard, way, minor }: Pick<Placed, 'shard' | 'way' | 'minor'>): Placed =>
  opened({ shard, way, minor, parent: 0, rate: LEAST, ceil: LEAST, burst: FRAME, ceilBurst: FRAME })

/** Whether the same is asked for at the same place. */
export const sameAsked = (one: Placed, other: Placed): boolean =>
  one.parent === other.parent &&
  one.rate === other.rate &&
  one.ceil === other.ceil &&
  one.burst === other.burst &&
  one.ceilBurst === other.ceilBurst &&
  one.queue === other.queue

/** Whether the kernel's class is what is asked for. */
export function sameClass(state: ClassState, it: HtbClass): boolean {
  return (
    state.parent === it.parent &&
    state.rate === it.rate &&
    state.ceil === it.ceil &&
    state.burstTicks === ticks(it.burst, it.rate) &&
    state.ceilBurstTicks === ticks(it.ceilBurst, it.ceil) &&
    (it.queue === undefined || state.leaf === leafHandle(it.minor))
  )
}

export const placeOf = ({ shard, way, minor }: Pick<Placed, 'shard' | 'way' | 'minor'>): string =>
  `${shard}/${way}/${minor}`
