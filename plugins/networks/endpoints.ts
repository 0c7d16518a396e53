/** Domain rules of endpoints. Rows exist only for those that are bound or have a MAC of their own; all others are computed (D41). */
import type { Change, Db, EventDraft, Ref } from '../../core/area.ts'
import { badRequest, conflict, lacks, notFound } from '../../core/errors.ts'
import { admit } from '../../core/tenancy.ts'
import { allocate, release } from '../ipam/offers.ts'
import { standAlone } from './claims.ts'
import { claimRef, endpointRef } from './desired.ts'
import { blockText, certain, defaultMac, ipOfDefaultMac, ipText, parseIp, readMac } from './ipv4.ts'
import { placeQueries } from './place-queries.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { Endpoint, MacInput } from './schemas.ts'
import type { EndpointRow, NetworkRow } from './tables.ts'
import { endpointId, placeOf, toEndpoint } from './views.ts'

/** What an attach asks for, read from text; see `readAttachment`. */
export interface Attachment {
  /** Absent: the lowest free one. */
  ip?: number
  /** Absent: the one that the endpoint has. */
  mac?: string
  /** For which machine; '' = none is known. */
  machine: string
  port: string
}

/** @throws ApiError 400 for text that is no address, no MAC, or a MAC that no NIC has */
export function readAttachment(input: { ip?: string; mac?: string }): Pick<Attachment, 'ip' | 'mac'> {
  const ip = input.ip ? parseIp(input.ip) : undefined
  if (input.ip && ip === undefined) throw badRequest('ip: not an IPv4 address')
  return { ...(ip !== undefined && { ip }), ...(input.mac && { mac: readMacField(input.mac) }) }
}

/** Binds an endpoint; one that is bound already, and to the same MAC, stays as it is (net-23). */
export function attach(
  tx: Db,
  network: NetworkRow,
  wanted: Attachment,
  now: string,
): Change<{ status: 'attached'; endpoint: Endpoint }> {
  const { result, ...change } = bindEndpoint(tx, network, wanted, now)
  return { ...change, result: { status: 'attached', endpoint: toEndpoint(network.id, result) } }
}

export function bindEndpoint(tx: Db, network: NetworkRow, wanted: Attachment, now: string): Change<EndpointRow> {
  const held = wanted.ip === undefined ? undefined : endpointAt(tx, network, wanted.ip)
  const row = held !== undefined && held.boundAt !== '' ? rebind(tx, held, wanted) : bind(tx, network, wanted, now)
  const endpoint = toEndpoint(network.id, row)
  return {
    result: row,
    touch: [endpointRef(row)],
    events: [{ type: 'endpoint.attached', area: 'networks', resource: resource(endpoint), data: endpoint }],
  }
}

/** Frees an endpoint; a free one stays as it is (D43). A public address of its NIC stays with the NIC. */
export function detach(tx: Db, network: NetworkRow, id: string): Change<{ status: 'detached'; endpoint: Endpoint }> {
  const { result, ...change } = freeEndpoint(tx, network, findEndpoint(tx, network, id))
  return { ...change, result: { status: 'detached', endpoint: toEndpoint(network.id, result) } }
}

export function freeEndpoint(tx: Db, network: NetworkRow, row: EndpointRow): Change<EndpointRow> {
  const mac = row.freeMac || defaultMac(row.address)
  const free: EndpointRow = { ...row, mac, boundAt: '', machine: '', port: '', keptPort: '', reservedAt: '' }
  const touch: Ref[] = [endpointRef(row)]
  const events: EventDraft[] = []
  if (row.boundAt !== '') {
    put(tx, free)
    release(tx, network.pool, ipText(row.address))
    const left = standAlone(tx, network.tenantId, row)
    touch.push(...left.touch)
    events.push(...left.events)
  }
  const endpoint = toEndpoint(network.id, free)
  return {
    result: free,
    touch,
    events: [{ type: 'endpoint.detached', area: 'networks', resource: resource(endpoint), data: endpoint }, ...events],
  }
}

type Updated = Change<{ status: 'updated'; endpoint: Endpoint }>

/** On a bound endpoint the MAC holds until it is detached, on a free one for good (D43). `port`: as `changePort`. */
export function changeMac(tx: Db, network: NetworkRow, id: string, { mac: text, port }: MacInput): Updated {
  const mac = readMacField(text)
  const found = findEndpoint(tx, network, id)
  checkMac(tx, network, mac, found.address)
  const old = port === undefined ? found : nameDevice(tx, found, port)
  const own = mac === defaultMac(old.address) ? '' : mac
  const row = { ...old, mac, ...(old.boundAt === '' && { freeMac: own }) }
  // It was for the other.
  if (mac !== old.mac) put(tx, { ...row, reservedAt: '' })
  else if (port !== undefined) put(tx, row)
  const claim = routedQueries(tx).claimOfEndpoint.get({ net: row.net, address: row.address })
  const endpoint = toEndpoint(network.id, row)
  return {
    result: { status: 'updated', endpoint },
    touch: [endpointRef(row), ...(claim ? [claimRef(claim.ip)] : [])],
    events: [{ type: 'endpoint.updated', resource: resource(endpoint), data: endpoint }],
  }
}

/**
 * Names the device of a bound endpoint in the place of any other, also of one that is kept; '' names none.
 * @throws ApiError 409 when the endpoint is free, or the device is another network's
 */
export function changePort(tx: Db, network: NetworkRow, id: string, port: string): Updated {
  const row = nameDevice(tx, findEndpoint(tx, network, id), port)
  if (row.boundAt !== '') put(tx, row)
  const endpoint = toEndpoint(network.id, row)
  return {
    result: { status: 'updated', endpoint },
    touch: [endpointRef(row)],
    events: [{ type: 'endpoint.updated', resource: resource(endpoint), data: endpoint }],
  }
}

export function nameDevice(tx: Db, row: EndpointRow, port: string): EndpointRow {
  if (row.boundAt === '' && port !== '') {
    const which = `endpoint ${endpointId(row.net, row.address)} (${ipText(row.address)})`
    throw conflict('FREE', `port: ${which} is free; attach it, with the port`)
  }
  checkPort(tx, port, row.net)
  return { ...row, port, keptPort: '' }
}

/** The endpoint with that address, from its row or computed. @throws ApiError 404, and 400 for what is never an endpoint (D42) */
export function endpointAt(db: Db, network: NetworkRow, address: number): EndpointRow {
  const { first, last, gateway } = network
  if (address < first || address > last) {
    throw lacks(`network ${network.name} (${blockText(network)})`, `endpoint ${ipText(address)}`)
  }
  if (isHost(network, address)) return rowAt(db, network.net, address)
  const what = address === gateway ? 'gateway' : address === first ? 'network address' : 'broadcast address'
  throw badRequest(`ip: ${ipText(address)} is the ${what} of ${blockText(network)}`)
}

/** The endpoint that has this MAC now; `mac` is canonical. */
export function endpointWithMac(db: Db, network: NetworkRow, mac: string): EndpointRow | undefined {
  const row = queries(db).endpointWithMac.get({ net: network.net, mac })
  if (row) return row
  const address = ipOfDefaultMac(mac)
  if (address === undefined || !isHost(network, address)) return undefined
  const computed = rowAt(db, network.net, address)
  return computed.mac === mac ? computed : undefined
}

export const isHost = ({ first, last, gateway }: NetworkRow, address: number): boolean =>
  address > first && address < last && address !== gateway

/** An endpoint without a row. */
export const computed = (net: number, address: number): EndpointRow => ({
  ...{ net, address, mac: defaultMac(address), freeMac: '', boundAt: '', machine: '', port: '', keptPort: '' },
  reservedAt: '',
})

export function readMacField(text: string): string {
  const read = readMac(text)
  if (typeof read === 'string') throw badRequest(`mac: ${read}`)
  return read.mac
}

/** @throws ApiError 409 when the device is named for, or kept by, an endpoint or machine of another network than `net` */
export function checkPort(tx: Db, port: string, net: number): void {
  const user = portUser(tx, port, net)
  if (user === undefined) return
  throw conflict(
    'PORT_TAKEN',
    `port: ${port} is declared by ${user} for another network; change its port, or detach it first`,
  )
}

/** Who of another network than `net` (0: every network is another) names or keeps the device; undefined when nobody does. */
export function portUser(db: Db, port: string, net: number): string | undefined {
  if (port === '') return undefined
  const endpoint = queries(db).endpointOnPort.get({ port, net }) ?? placeQueries(db).endpointKeeping.get({ port, net })
  const claim = routedQueries(db).claimOnPort.get({ port }) ?? placeQueries(db).claimKeeping.get({ port, own: 0 })
  const machine = endpoint?.machine || (endpoint === undefined ? claim?.machine : '')
  return machine ? `machine ${machine}` : endpoint && `endpoint ${endpointId(endpoint.net, endpoint.address)}`
}

function bind(tx: Db, network: NetworkRow, wanted: Attachment, now: string): EndpointRow {
  const { net, pool, tenantId } = network
  admit(tx, tenantId, 'endpoints')
  const allocation = allocate(tx, {
    pool,
    ...(wanted.ip !== undefined && { ip: ipText(wanted.ip) }),
    label(ip) {
      const id = endpointId(net, certain(parseIp(ip)))
      return { hostname: id, owner: `endpoint ${id}` }
    },
  })
  const free = rowAt(tx, net, certain(parseIp(allocation.ip)))
  const { mac = free.mac, machine, port } = wanted
  checkMac(tx, network, mac, free.address)
  checkPort(tx, port, net)
  const row = { ...free, mac, boundAt: now, machine, port }
  put(tx, row)
  return row
}

/** Nobody's becomes the machine's that names it. One without a named device gets the one that is named. */
function rebind(tx: Db, held: EndpointRow, { mac = held.mac, machine, port }: Attachment): EndpointRow {
  const which = `endpoint ${endpointId(held.net, held.address)} (${ipText(held.address)})`
  if (mac !== held.mac) throw conflict('BOUND', `${which} is bound to ${held.mac}; change its MAC, or detach it first`)
  if (machine !== '' && held.machine !== '' && held.machine !== machine) {
    throw conflict('BOUND', `${which} is used by machine ${held.machine}; detach that first`)
  }
  if (port !== '' && held.port !== '' && port !== held.port) {
    throw conflict('BOUND', `${which} is declared on ${held.port}; change its port, or detach it first`)
  }
  if (machine === '' && (port === '' || port === held.port)) return held
  // A suspended tenant's machines get nothing new.
  if (held.machine === '') admit(tx, queries(tx).networkNumbered.get({ net: held.net })?.tenantId, 'endpoints', 0)
  const row = { ...(port === '' ? held : nameDevice(tx, held, port)), machine: machine || held.machine }
  put(tx, row)
  return row
}

/** The address of every endpoint that holds the MAC, now or when it is free again, must be this one. */
function checkMac(tx: Db, network: NetworkRow, mac: string, address: number): void {
  const { net } = network
  const now = queries(tx).endpointWithMac.get({ net, mac })?.address
  const free = queries(tx).endpointFreeWithMac.get({ net, mac })?.address
  const default_ = ipOfDefaultMac(mac)
  const computed = default_ !== undefined && isHost(network, default_) ? default_ : undefined
  const holder = [now, free, computed].find((it) => it !== undefined && it !== address)
  if (holder !== undefined) {
    throw badRequest(`mac: ${mac} is held by endpoint ${endpointId(net, holder)} (${ipText(holder)})`)
  }
}

function findEndpoint(db: Db, network: NetworkRow, id: string): EndpointRow {
  const place = placeOf(id)
  if (place === undefined || place.net !== network.net || !isHost(network, place.address)) {
    throw notFound('endpoint', id.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  }
  return rowAt(db, place.net, place.address)
}

const rowAt = (db: Db, net: number, address: number): EndpointRow =>
  queries(db).endpoint.get({ net, address }) ?? computed(net, address)

/** A row that says no more than what would be computed is none. */
export function put(tx: Db, row: EndpointRow): void {
  const { net, address } = row
  if (row.boundAt === '' && row.freeMac === '') queries(tx).removeEndpoint.run({ net, address })
  else queries(tx).putEndpoint.run(row)
}

const resource = ({ network_id, id }: Endpoint): string => `/api/v1/networks/${network_id}/endpoints/${id}`
