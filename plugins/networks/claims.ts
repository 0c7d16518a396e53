/** Which machine uses which routed public address: an address beside an endpoint's, or all that a NIC has. */
import type { Db, EventDraft, Ref } from '../../core/area.ts'
import { badRequest, conflict, notFound } from '../../core/errors.ts'
import { admit } from '../../core/tenancy.ts'
import { ROUTED_NET_BASE } from '../../dataplane/numbers.ts'
import { publicAddressEvent } from '../ipam/offers.ts'
import { claimRef, endpointRef, routedRef } from './desired.ts'
import { certain, defaultMac, ipText, parseIp } from './ipv4.ts'
import { nextNumber, queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { RoutedAddress } from './schemas.ts'
import type { ClaimRow, EndpointRow, RangeRow } from './tables.ts'

/** The data plane has 23 bits for the number of a network. */
const OWN_MAX = ROUTED_NET_BASE - 1

/** Public address of a NIC with an endpoint, or of one without (`mac` and `port` are its own). */
export type Holder = { endpoint: EndpointRow; tenantId: string } | { mac: string | undefined; port: string }

/** `auto`, or an address. @throws ApiError 400 */
export function readPublicIp(text: string): number | 'auto' {
  const ip = text === 'auto' ? text : parseIp(text)
  if (ip === undefined) throw badRequest('public_ip: must be auto or an IPv4 address')
  return ip
}

/**
 * Gives a public address to a machine's NIC. @throws ApiError 404 for an address in no range; 409 when it is used, is
 * reserved to another tenant, none is left, or the tenant has enough; 400 for a MAC that another NIC without an endpoint has
 */
export function claim(
  tx: Db,
  wanted: number | 'auto',
  machine: string,
  holder: Holder,
): { row: ClaimRow; touch: Ref[] } {
  const tenant = 'endpoint' in holder ? holder.tenantId : undefined
  const { ip, range } = wanted === 'auto' ? freeAddress(tx, tenant ?? '') : certainAddress(tx, wanted, tenant)
  // What is reserved to a tenant was counted when it was.
  admit(tx, tenant || range.tenantId, 'routed_addresses', range.tenantId === '' ? 1 : 0)
  const row: ClaimRow = { ip, range: range.id, machine, ...place(tx, ip, holder) }
  routedQueries(tx).addClaim.run(row)
  routedQueries(tx).countUsed.run({ id: range.id, by: 1 })
  return { row, touch: [claimRef(ip), routedRef, ...('endpoint' in holder ? [endpointRef(holder.endpoint)] : [])] }
}

/** Takes a public address from its NIC. */
export function unclaim(tx: Db, row: ClaimRow): Ref[] {
  routedQueries(tx).removeClaim.run({ ip: row.ip })
  routedQueries(tx).countUsed.run({ id: row.range, by: -1 })
  return [claimRef(row.ip), routedRef, ...(row.net > 0 ? [endpointRef(row)] : [])]
}

/**
 * An endpoint was freed: the public address of its NIC, if there is one, stays with the NIC alone; but one that a tenant has
 * out of a range for everybody is given back, since without the endpoint it would be nobody's. `old`: as it was bound.
 */
export function standAlone(tx: Db, tenantId: string, old: EndpointRow): { touch: Ref[]; events: EventDraft[] } {
  const row = routedQueries(tx).claimOfEndpoint.get({ net: old.net, address: old.address })
  if (row === undefined) return { touch: [], events: [] }
  const range = certain(routedQueries(tx).range.get({ id: row.range }))
  if (tenantId !== range.tenantId) {
    const events = [told(tx, 'deleted', row)]
    return { touch: unclaim(tx, row), events }
  }
  // One port belongs to one network, and other NICs may be declared on it.
  const port = queries(tx).endpointOnPort.get({ port: old.port, net: 0 }) ? '' : old.port
  routedQueries(tx).standAlone.run({ ip: row.ip, mac: old.mac, own: ownNumber(tx), port })
  return { touch: [claimRef(row.ip)], events: [] }
}

/** Tells that a public address was taken, or before it is that it is given back. */
export function told(tx: Db, verb: 'created' | 'deleted', { ip, range }: ClaimRow): EventDraft {
  return publicAddressEvent(verb, addressOf(tx, ip, certain(routedQueries(tx).range.get({ id: range }))))
}

/** The address as the list shows it; a free one has neither user nor MAC. */
export function addressOf(db: Db, ip: number, range: Pick<RangeRow, 'id' | 'tenantId'>): RoutedAddress {
  const row = routedQueries(db).claim.get({ ip })
  return toAddress(ip, range, row)
}

export const toAddress = (
  ip: number,
  range: Pick<RangeRow, 'id' | 'tenantId'>,
  row: { machine: string; currentMac: string } | undefined,
): RoutedAddress => ({
  ip: ipText(ip),
  range_id: range.id,
  tenant_id: range.tenantId,
  used_by: row?.machine ?? '',
  mac: row?.currentMac ?? '',
})

function place(tx: Db, ip: number, holder: Holder): Omit<ClaimRow, 'ip' | 'range' | 'machine'> {
  if ('endpoint' in holder) {
    const { net, address } = holder.endpoint
    const other = routedQueries(tx).claimOfEndpoint.get({ net, address })
    if (other) throw conflict('HAS_PUBLIC_IP', `public_ip: ${ipText(address)} has ${ipText(other.ip)} already`)
    return { net, address, mac: '', own: 0, port: '', keptPort: '' }
  }
  const mac = holder.mac ?? defaultMac(ip)
  const other = routedQueries(tx).claimWithMac.get({ mac })
  if (other) throw badRequest(`mac: ${mac} is held by machine ${other.machine} (${ipText(other.ip)})`)
  return { net: 0, address: 0, mac, own: ownNumber(tx), port: holder.port, keptPort: '' }
}

const ownNumber = (tx: Db): number =>
  nextNumber(tx, 'own', OWN_MAX, (own) => routedQueries(tx).claimNumbered.get({ own }) !== undefined)

/** The lowest free address of the tenant's ranges, else of those that are for everybody. */
function freeAddress(tx: Db, tenant: string): { ip: number; range: RangeRow } {
  const q = routedQueries(tx)
  const range = q.rangeWithRoom.get({ tenant }) ?? q.rangeWithRoom.get({ tenant: '' })
  if (range === undefined) throw conflict('NO_FREE_ADDRESS', 'public_ip: no free address')
  const { first, last } = range
  const ip = q.claim.get({ ip: first }) === undefined ? first : q.gapAfterClaim.get({ first, last })?.ip
  if (ip === undefined) throw new TypeError(`range ${range.id} counts fewer claims than it has`)
  return { ip, range }
}

/** `tenant`: of the NIC's network; undefined when the operator gives a NIC nothing but this address, and may take any. */
function certainAddress(tx: Db, ip: number, tenant: string | undefined): { ip: number; range: RangeRow } {
  const range = routedQueries(tx).rangeFrom.get({ ip })
  if (range === undefined || range.first > ip) throw notFound('routed address', ipText(ip))
  if (range.tenantId !== '' && tenant !== undefined && range.tenantId !== tenant) {
    throw conflict('RESERVED', `public_ip: ${ipText(ip)} is reserved to tenant ${range.tenantId}`)
  }
  const used = routedQueries(tx).claim.get({ ip })
  if (used) throw conflict('IN_USE', `public_ip: ${ipText(ip)} is used by machine ${used.machine}`)
  return { ip, range }
}
