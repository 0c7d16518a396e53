/** Domain rules of limits. Knows neither Fastify nor the kernel. */
import { eq } from 'drizzle-orm'
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, lacks, limitReached, notFound } from '../../core/errors.ts'
import { checkGuarantees, checkRate, defaultBurst, findPool, printable, readMac } from './input.ts'
import { place, placeAll } from './place.ts'
import { queries } from './queries.ts'
import type { Limit, LimitInput } from './schemas.ts'
import { type LimitRow, limits } from './tables.ts'

const resource = (id: string) => `/api/v1/bandwidth/${id}`

export interface Bounds {
  /** What the licence lets the node carry, Gbit/s; 0 for no end. */
  gbps: number
  max: number
}

export const toLimit = (row: LimitRow): Limit => ({
  id: row.id,
  target_mac: row.mac,
  interface_id: row.interface,
  rate_bps: row.rate,
  burst_bytes: row.burst,
  guaranteed_bps: row.guaranteed,
  direction: row.direction,
  pool_id: row.poolId,
})

/** Makes a limit, or makes the one of this id another. @throws ApiError 400, 404 for an unknown pool, 409 */
export function putLimit(
  tx: Db,
  input: LimitInput,
  bounds: Bounds,
): Change<{ status: 'created' | 'updated'; limit: Limit }> {
  const mac = readMac(input.target_mac, 'target_mac')
  const fields = read(tx, mac, input, bounds)
  const before = queries(tx).limit.get({ id: input.id })
  const holder = queries(tx).limitOf.get({ mac })
  if (holder && holder.id !== input.id) throw alreadyExists(`limit ${holder.id} of ${mac}`)
  if (!before && (queries(tx).limitCount.get()?.many ?? 0) >= bounds.max) throw limitReached('limits', bounds.max)
  const row = before
    ? tx.update(limits).set(fields).where(eq(limits.id, input.id)).returning().get()
    : tx
        .insert(limits)
        .values({ id: input.id, ...fields })
        .returning()
        .get()
  if (row === undefined) throw notFound('limit', input.id)
  if (row.poolId !== '') checkGuarantees(tx, findPool(tx, row.poolId))
  const limit = toLimit(row)
  const status = before ? 'updated' : 'created'
  return {
    result: { status, limit },
    touch: placeAll(tx, [...(before ? [before.mac] : []), mac]),
    events: [{ type: `limit.${status}`, resource: resource(row.id), data: limit }],
  }
}

function read(tx: Db, mac: string, input: LimitInput, { gbps }: Bounds): Omit<LimitRow, 'seq' | 'id'> {
  const { rate_bps = 0, guaranteed_bps = 0, direction = 'both', pool_id = '', interface_id = 0 } = input
  const pool = pool_id === '' ? undefined : findPool(tx, pool_id)
  if (rate_bps === 0 && pool === undefined)
    throw badRequest('rate_bps is required, unless pool_id names a pool: then the limit is what the pool has')
  checkRate(rate_bps, 'rate_bps', gbps)
  const most = rate_bps || (pool?.total ?? 0)
  if (guaranteed_bps > most) throw badRequest(`guaranteed_bps: is more than the rate (${most})`)
  const member = queries(tx).member.get({ mac })
  if (pool && member && member.poolId !== pool.id) throw otherPool(mac, member.poolId)
  const burst = input.burst_bytes || defaultBurst(most)
  return { mac, interface: interface_id, rate: rate_bps, burst, guaranteed: guaranteed_bps, direction, poolId: pool_id }
}

export const otherPool = (mac: string, poolId: string) =>
  conflict('IN_ANOTHER_POOL', `${mac} is a member of pool ${poolId}: remove it there first`)

/** @throws ApiError 404 */
export function deleteLimit(tx: Db, id: string): Change<{ status: 'deleted'; id: string }> {
  const row = queries(tx).limit.get({ id })
  if (row === undefined) throw notFound('limit', printable(id))
  tx.delete(limits).where(eq(limits.id, id)).run()
  return {
    result: { status: 'deleted', id },
    touch: place(tx, row.mac),
    events: [{ type: 'limit.deleted', resource: resource(id), data: { id } }],
  }
}

/** @throws ApiError 404 */
export function limitOfMac(db: Db, text: string): Limit {
  const mac = readMac(text, 'mac')
  const row = queries(db).limitOf.get({ mac })
  if (row === undefined) throw lacks(mac, 'limit')
  return toLimit(row)
}
