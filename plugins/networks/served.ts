/** What networks offer to the servers on the node: gateways that it holds, networks that are served, and who is bound. */
import type { Change, Db } from '../../core/area.ts'
import { conflict } from '../../core/errors.ts'
import { bindEndpoint, endpointAt, freeEndpoint, put, readAttachment } from './endpoints.ts'
import { blockText, certain, ipText } from './ipv4.ts'
import { boundOf, queries } from './queries.ts'
import type { EndpointRow, NetworkRow } from './tables.ts'
import { endpointId } from './views.ts'

/** The address that the node holds as the gateway of a network, by the network's number in the data plane. */
export function hostGateway(db: Db, net: number): string | undefined {
  const row = queries(db).networkNumbered.get({ net })
  return row?.hostGateway ? ipText(row.gateway) : undefined
}

/** All addresses that the node holds as the gateway of a network. */
export const hostGateways = (db: Db): string[] =>
  queries(db)
    .allNetworks.all()
    .flatMap((row) => (row.hostGateway ? ipText(row.gateway) : []))

/** A network that is served over DHCP. */
export interface ServedNetwork {
  id: string
  name: string
  /** Its number in the data plane. */
  net: number
  cidr: string
  gateway: string
}

/** An endpoint that is bound. */
export interface BoundEndpoint {
  net: number
  /** As a number, which refs of endpoints have. */
  address: number
  ip: string
  mac: string
  /** '' = none. */
  machine: string
  /** Since when it has been reserved for its MAC; '' = it is not. */
  reservedAt: string
}

export const servedNetworks = (db: Db): ServedNetwork[] =>
  queries(db)
    .allNetworks.all()
    .flatMap((row) => toServed(row) ?? [])

export function servedNetwork(db: Db, net: number): ServedNetwork | undefined {
  const row = queries(db).networkNumbered.get({ net })
  return row && toServed(row)
}

/** The id of a network by its number in the data plane. */
export const networkId = (db: Db, net: number): string | undefined => queries(db).networkNumbered.get({ net })?.id

/** Every bound endpoint of a network; page by page, so that no statement stays open while the caller yields. */
export function* boundEndpoints(db: Db, net: number): Generator<BoundEndpoint> {
  for (const row of boundOf(db, net)) yield toBound(row)
}

export function boundEndpoint(db: Db, net: number, address: number): BoundEndpoint | undefined {
  const row = queries(db).endpoint.get({ net, address })
  return row === undefined || row.boundAt === '' ? undefined : toBound(row)
}

/**
 * Binds a free endpoint to a MAC, for no machine, until it is detached or gets another MAC. @throws ApiError 409 when it is bound already; and as binding does
 */
export function reserveEndpoint(
  tx: Db,
  net: number,
  wanted: { ip: string; mac: string },
  now: string,
): Change<BoundEndpoint> {
  const network = certain(queries(tx).networkNumbered.get({ net }))
  const { ip = 0, mac = '' } = readAttachment(wanted)
  const held = endpointAt(tx, network, ip)
  if (held.boundAt !== '') {
    const by = held.machine ? `, used by machine ${held.machine}` : ''
    throw conflict(
      'BOUND',
      `endpoint ${endpointId(net, ip)} (${ipText(ip)}) is bound to ${held.mac}${by}; detach it first`,
    )
  }
  const { result, ...change } = bindEndpoint(tx, network, { ip, mac, machine: '', port: '' }, now)
  const row = { ...result, reservedAt: now }
  put(tx, row)
  return { ...change, result: toBound(row) }
}

/** Frees an endpoint that no machine uses; any other goes on without being reserved. */
export function unreserveEndpoint(tx: Db, { net, address }: BoundEndpoint): Change<undefined> {
  const row = certain(queries(tx).endpoint.get({ net, address }))
  if (row.machine === '') {
    return { ...freeEndpoint(tx, certain(queries(tx).networkNumbered.get({ net })), row), result: undefined }
  }
  put(tx, { ...row, reservedAt: '' })
  return { result: undefined, touch: [], events: [] }
}

/** By network and address. */
export const reservedEndpoints = (db: Db): BoundEndpoint[] => queries(db).reservedEndpoints.all().map(toBound)

export const reservedCount = (db: Db): number => queries(db).reservedCount.get()?.count ?? 0

function toServed(row: NetworkRow): ServedNetwork | undefined {
  if (!row.dhcp) return undefined
  return { id: row.id, name: row.name, net: row.net, cidr: blockText(row), gateway: ipText(row.gateway) }
}

const toBound = ({ net, address, mac, machine, reservedAt }: EndpointRow): BoundEndpoint => ({
  ...{ net, address, ip: ipText(address), mac, machine, reservedAt },
})
