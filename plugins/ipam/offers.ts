/**
 * What IPAM offers to other areas, inside their transaction: pools that are theirs, and addresses out of a pool. Whatever
 * carries an owner is refused to the API's own deletions and releases; its maker removes it here.
 */
import type { Db, EventDraft } from '../../core/area.ts'
import { badRequest, conflict, notFound } from '../../core/errors.ts'
import { admit } from '../../core/tenancy.ts'
import { hostsOf, parseAddress, parseSubnet, type Subnet, textOf } from './address.ts'
import { PORTION, queries } from './queries.ts'
import type { Allocation, Pool, PoolInput, PublicAddress } from './schemas.ts'
import { giveBack, openSpace, take, takeLowest } from './space.ts'
import type { AllocationRow, PoolRow } from './tables.ts'

export type { Allocation, Pool, PoolInput } from './schemas.ts'

/** Ids of pools that belong to something on this node begin here, so that those of the other pools are free on every member of a cluster. */
export const FIRST_OWN = 2 ** 40
/** The tenant of what is the operator's own. */
export const OPERATORS = ''

/**
 * A pool with an owner counts as what owns it, and has been admitted with that.
 * @throws ApiError 400 naming the field that is wrong, or the pool of the same tenant that the subnet overlaps; 404 and 409
 * as `admit` does
 */
export function createPool(tx: Db, input: PoolInput, owner: string): Pool {
  const { tenant_id = '' } = input
  const row = { ...readPool(input), tenantId: owner === '' ? admit(tx, tenant_id, 'ip_pools') : tenant_id, owner }
  const taken = overlapping(tx, row.tenantId, row.subnet)
  if (taken) throw badRequest(`subnet: overlaps pool ${taken.id} (${taken.name}, ${taken.subnet})`)
  const id = nextId(tx, owner === '' ? 'shared' : 'own')
  queries(tx).addPool.run({ ...row, id })
  openSpace(tx, id, row.rangeStart, row.rangeEnd, row.gateway)
  return toPool({ ...row, id })
}

/** Removes a pool and everything allocated in it, in portions between which others get their turn. */
export async function removePool(tx: Db, id: number): Promise<void> {
  while (queries(tx).clearAllocations.run({ pool: id }).changes === PORTION) await nextTurn()
  await clearSpace(tx, id)
  queries(tx).removePool.run({ id })
}

/** Forgets what is free in a pool. */
export async function clearSpace(tx: Db, pool: number): Promise<void> {
  while (queries(tx).clearFree.run({ pool }).changes === PORTION) await nextTurn()
}

/**
 * The pool of this tenant that shares an address with the subnet. Those of this node and those that others have as well may
 * overlap, because another member does not know what this node has. @throws ApiError 400 when it is no CIDR
 */
export function overlapping(tx: Db, tenantId: string, cidr: string): Pool | undefined {
  const { family, first, last } = readSubnet(cidr)
  const { sharedBelow, ownBelow } = queries(tx)
  for (const query of [sharedBelow, ownBelow]) {
    const below = query.get({ tenant: tenantId, family, last })
    if (below !== undefined && below.last >= first) return toPool(below)
  }
  return undefined
}

export interface Wanted {
  pool: number
  /** Absent: the lowest that is free. */
  ip?: string
  /** What the address is given to; asked once it is known which address that is. */
  label(ip: string): { hostname: string; owner: string }
}

/**
 * An address with an owner counts as what owns it, and has been admitted with that.
 * @throws ApiError 404 for an unknown pool; 400 when `ip` is no address; 409 when it is not free, or none is, or the tenant
 * of the pool has enough
 */
export function allocate(tx: Db, { pool, ip, label }: Wanted): Allocation {
  const { tenantId } = findPool(tx, pool)
  const address = ip === undefined ? takeLowest(tx, pool) : takeOne(tx, pool, ip)
  if (address === undefined) throw conflict('NO_FREE_ADDRESS', 'no free address')
  const row = { poolId: pool, tenantId, ip: address, ...label(textOf(address)) }
  if (row.owner === '') admit(tx, tenantId, 'ip_allocations')
  const id = Number(queries(tx).addAllocation.run(row).lastInsertRowid)
  return toAllocation({ ...row, id })
}

/** Frees an address, whoever owns it. @throws ApiError 404 when it is not allocated */
export function release(tx: Db, pool: number, ip: string): AllocationRow {
  const row = findAllocation(tx, pool, ip)
  queries(tx).removeAllocation.run({ id: row.id })
  giveBack(tx, pool, row.ip)
  return row
}

/** Tells of a public address that a machine took or left, under the kinds that all allocations share. */
export function publicAddressEvent(verb: 'created' | 'deleted', data: PublicAddress): EventDraft {
  return { type: `allocation.${verb}`, area: 'ipam', resource: `/api/v1/routed-addresses/${data.range_id}`, data }
}

export function findPool(tx: Db, id: number): PoolRow {
  const row = queries(tx).pool.get({ id })
  if (row === undefined) throw notFound('pool', id)
  return row
}

/** @throws ApiError 400 when `ip` is no address, 404 when it is not allocated in that pool */
export function findAllocation(tx: Db, pool: number, ip: string): AllocationRow {
  const address = readAddress(ip, 'ip')
  const row = queries(tx).allocation.get({ pool, ip: address.hex })
  if (row === undefined) throw notFound('allocation of', `${textOf(address.hex)} in pool ${pool}`)
  return row
}

export function toPool(row: PoolRow): Pool {
  return {
    id: row.id,
    name: row.name,
    subnet: row.subnet,
    gateway: row.gateway && textOf(row.gateway),
    range_start: textOf(row.rangeStart),
    range_end: textOf(row.rangeEnd),
    is_ipv6: row.family === 6,
    tenant_id: row.tenantId,
  }
}

export const toAllocation = (row: Pick<AllocationRow, 'id' | 'poolId' | 'ip' | 'hostname'>): Allocation => ({
  id: row.id,
  pool_id: row.poolId,
  ip: textOf(row.ip),
  hostname: row.hostname,
})

/** Checks what a schema cannot. An empty optional field is an absent one. */
function readPool(input: PoolInput): Omit<PoolRow, 'id' | 'tenantId' | 'owner'> {
  const subnet = readSubnet(input.subnet)
  const ipv6 = subnet.family === 6
  if (input.is_ipv6 !== undefined && input.is_ipv6 !== ipv6) {
    throw badRequest(`is_ipv6: the subnet is ${ipv6 ? 'IPv6' : 'IPv4'}`)
  }
  const hosts = hostsOf(subnet)
  const inside = (field: 'range_start' | 'range_end', otherwise: string) => {
    const text = input[field]
    if (!text) return otherwise
    const { family, hex } = readAddress(text, field)
    if (family === subnet.family && hex >= subnet.first && hex <= subnet.last) return hex
    throw badRequest(`${field}: must lie inside ${subnet.text}`)
  }
  const [rangeStart, rangeEnd] = [inside('range_start', hosts.first), inside('range_end', hosts.last)]
  if (rangeStart > rangeEnd) throw badRequest('range_start: must not be above range_end')
  const { family, first, last } = subnet
  const gateway = readGateway(input.gateway, subnet)
  return { name: input.name, subnet: subnet.text, family, first, last, gateway, rangeStart, rangeEnd }
}

/** May lie outside the subnet, as a link-local router of an IPv6 subnet does. */
function readGateway(text: string | undefined, { family }: Subnet): string {
  if (!text) return ''
  const gateway = readAddress(text, 'gateway')
  if (gateway.family !== family) throw badRequest('gateway: must be of the same address family as the subnet')
  return gateway.hex
}

function readSubnet(text: string): Subnet {
  const subnet = parseSubnet(text)
  if (typeof subnet === 'string') throw badRequest(`subnet: ${subnet}`)
  return subnet
}

function readAddress(text: string, field: string) {
  const address = parseAddress(text)
  if (address === undefined) throw badRequest(`${field}: not an IP address`)
  return address
}

function takeOne(tx: Db, pool: number, ip: string): string {
  const { hex } = readAddress(ip, 'ip')
  if (take(tx, pool, hex)) return hex
  const holder = queries(tx).allocation.get({ pool, ip: hex })
  const why =
    holder === undefined ? 'is not for allocation' : `is taken by ${holder.owner || `allocation ${holder.id}`}`
  throw conflict('NOT_FREE', `${textOf(hex)} of pool ${pool} ${why}`)
}

/** Follows the last one that was given, here or by another member, so that none is used again. */
function nextId(tx: Db, name: 'shared' | 'own'): number {
  const id = (queries(tx).lastId.get({ name })?.value ?? (name === 'own' ? FIRST_OWN : 0)) + 1
  queries(tx).reached.run({ name, value: id })
  return id
}

/** Others get their turn. */
const nextTurn = () => new Promise((turn) => setImmediate(turn))
