/**
 * What IPAM offers to other areas, inside their transaction: pools that are theirs, and addresses out of a pool. Whatever
 * carries an owner is refused to the API's own deletions and releases; its maker removes it here.
 */
import type { Db, EventDraft } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, lacks, notFound } from '../../core/errors.ts'
import { admit } from '../../core/tenancy.ts'
import { hostsOf, parseAddress, parseSubnet, type Subnet, textOf } from './address.ts'
import { PORTION, queries } from './queries.ts'
import type { Allocation, Pool, PoolInput, PublicAddress } from './schemas.ts'
import { giveBack, openSpace, take, takeLowest } from './space.ts'
import type { AllocationRow, PoolRow } from './tables.ts'

/** 169.254.0.0/16 and fe80::/10 as hex. */
const LINK_LOCAL = /^(a9fe[0-9a-f]{4}|fe[89ab][0-9a-f]{29})$/

export type { Allocation, Pool, PoolInput } from './schemas.ts'

/** Ids of pools that belong to something on this node begin here, so that those of the other pools are free on every member of a cluster. */
export const FIRST_OWN = 2 ** 40
/** The tenant of what is the operator's own. */
export const OPERATORS = ''

/**
 * A pool with an owner counts as what owns it, and has been admitted with that.
 * @throws ApiError 400 naming the field that is wrong, or what of the same tenant the subnet overlaps; 409 for a name that
 * another pool of the tenant has; 404 and 409 as `admit` does
 */
export function createPool(tx: Db, input: PoolInput, owner: string): Pool {
  const { tenant_id = '' } = input
  const row = { ...readPool(input), tenantId: owner === '' ? admit(tx, tenant_id, 'ip_pools') : tenant_id, owner }
  const taken = overlapping(tx, row.tenantId, row.subnet)
  if (taken) throw badRequest(`subnet: overlaps ${taken}`)
  if (owner === '' && queries(tx).poolNamed.get({ tenant: row.tenantId, name: row.name }))
    throw alreadyExists(`pool ${row.name}`)
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
 * What of this tenant shares an address with the subnet, in words: `network lan (10.1.0.0/24)`, or `pool 3 (lab, 10.1.0.0/24)`.
 * Pools of this node's networks and pools that all members of a cluster hold may overlap, because another member does not
 * know this node's networks. @throws ApiError 400 when it is no CIDR
 */
export function overlapping(tx: Db, tenantId: string, cidr: string): string | undefined {
  const { family, first, last } = readSubnet(cidr)
  const { sharedBelow, ownBelow } = queries(tx)
  for (const query of [sharedBelow, ownBelow]) {
    const below = query.get({ tenant: tenantId, family, last })
    if (below !== undefined && below.last >= first) return described(below)
  }
  return undefined
}

/** A pool that was made with a network is known to operators by that network. */
const described = ({ id, name, subnet, owner }: PoolRow): string =>
  owner.startsWith('network ') ? `network ${name} (${subnet})` : `pool ${id} (${name}, ${subnet})`

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
  if (row === undefined) throw lacks(`pool ${pool}`, `allocation of ${textOf(address.hex)}`)
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

/** Lies inside the subnet, or is a link-local router (RFC 3927, RFC 4291 §2.5.6). */
function readGateway(text: string | undefined, { family, first, last, text: cidr }: Subnet): string {
  if (!text) return ''
  const gateway = readAddress(text, 'gateway')
  if (gateway.family !== family) throw badRequest('gateway: must be of the same address family as the subnet')
  const { hex } = gateway
  if ((hex < first || hex > last) && !LINK_LOCAL.test(hex)) throw badRequest(`gateway: must lie inside ${cidr}`)
  return hex
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
