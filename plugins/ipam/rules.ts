/** Domain rules of IPAM: input → rows, and what changed. Knows neither Fastify nor the kernel. */
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { conflict, limitReached, notFound } from '../../core/errors.ts'
import * as store from './offers.ts'
import { queries } from './queries.ts'
import type { Allocated, AllocateInput, Allocation, Pool, PoolInput, ReleaseInput } from './schemas.ts'

export function createPool(tx: Db, input: PoolInput, max: number): Change<{ status: 'created'; pool: Pool }> {
  const pool = store.createPool(tx, input, '')
  if ((queries(tx).directPools.get()?.count ?? 0) > max) throw limitReached('pools', max)
  return {
    result: { status: 'created', pool },
    touch: [],
    events: [poolCreated(pool)],
  }
}

/** Takes the allocations with it. @throws ApiError 404, and 409 for a pool that belongs to something else (D44) */
export async function deletePool(tx: Db, path: string): Promise<Change<{ status: 'deleted'; id: number }>> {
  const { id, owner } = findInPath(tx, path)
  if (owner !== '') throw conflict('IN_USE', `pool ${id} belongs to ${owner} and goes with it`)
  await store.removePool(tx, id)
  return {
    result: { status: 'deleted', id },
    touch: [],
    events: [poolDeleted(id)],
  }
}

export const poolCreated = (pool: Pool): EventDraft => ({
  type: 'pool.created',
  resource: `/api/v1/ipam/pools/${pool.id}`,
  data: pool,
})
/** Tells of what was allocated in it as well. */
export const poolDeleted = (id: number): EventDraft => ({
  type: 'pool.deleted',
  resource: `/api/v1/ipam/pools/${id}`,
  data: { id },
})

/** In a pool of a network this reserves an address and binds nothing (D44). */
export function allocateAddress(tx: Db, { pool_id, hostname = '' }: AllocateInput): Change<Allocated> {
  const allocation = store.allocate(tx, { pool: pool_id, label: () => ({ hostname, owner: '' }) })
  return {
    result: { status: 'allocated', ...allocation },
    touch: [],
    events: [allocationCreated(allocation)],
  }
}

export function releaseAddress(tx: Db, { pool_id, ip }: ReleaseInput): Change<{ status: 'released' }> {
  store.findPool(tx, pool_id)
  const found = store.findAllocation(tx, pool_id, ip)
  if (found.owner !== '') throw conflict('IN_USE', `${ip} is in use by ${found.owner}: detach that first`)
  const released = store.toAllocation(store.release(tx, pool_id, ip))
  return { result: { status: 'released' }, touch: [], events: [allocationDeleted(released)] }
}

export const allocationCreated = (allocation: Allocation): EventDraft => ({
  type: 'allocation.created',
  resource: `/api/v1/ipam/allocations/${allocation.id}`,
  data: allocation,
})
export const allocationDeleted = ({ id, pool_id, ip }: Allocation): EventDraft => ({
  type: 'allocation.deleted',
  resource: `/api/v1/ipam/allocations/${id}`,
  data: { id, pool_id, ip },
})

/** Text that is no id names no pool, like any other unknown one: 404. */
function findInPath(tx: Db, path: string) {
  if (!/^[1-9][0-9]{0,14}$/.test(path)) throw notFound('pool', path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return store.findPool(tx, Number(path))
}
