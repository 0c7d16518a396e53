/**
 * What networks offer to other areas, inside their transaction: NICs of machines (an endpoint, a public address, or both,
 * taken as one and given back as one), and who is who.
 */

import type { Change, Db, EventDraft, Ref } from '../../core/area.ts'
import { badRequest, notFound } from '../../core/errors.ts'
import { bindingKey } from '../../dataplane/bpf/port/entries.ts'
import { ROUTED_NET_BASE } from '../../dataplane/numbers.ts'
import { claim, type Holder, readPublicIp, told, unclaim } from './claims.ts'
import { claimRef } from './desired.ts'
import {
  bindEndpoint,
  changePort,
  checkPort,
  endpointWithMac,
  freeEndpoint,
  readAttachment,
  readMacField,
} from './endpoints.ts'
import { certain, ipText } from './ipv4.ts'
import { placeQueries } from './place-queries.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { Endpoint, Network, Nic, NicInput } from './schemas.ts'
import type { ClaimRow, EndpointRow, NetworkRow } from './tables.ts'
import { endpointId, toEndpoint, toNetwork } from './views.ts'

export { type Carried, carried, carriedBy, carriedOn } from './carried.ts'
export { readRef } from './desired.ts'
export { type TenantAddress, tenantAddressPage, tenantNetworkPage } from './pages.ts'
export { AnyPort, type Endpoint, Network, Nic, NicInput, RoutedAddress } from './schemas.ts'
export {
  type BoundEndpoint,
  boundEndpoint,
  boundEndpoints,
  hostGateway,
  hostGateways,
  networkId,
  reservedCount,
  reservedEndpoints,
  reserveEndpoint,
  type ServedNetwork,
  servedNetwork,
  servedNetworks,
  unreserveEndpoint,
} from './served.ts'
/** Name of the nft set of everything that this node serves itself (IPv4): no traffic to it is translated. */
export { INSIDE } from './skeleton.ts'
export { netsOfRef, netsOfTenant, type TenantBinding, tenantBindings, tenantOfNet } from './tenants.ts'

/**
 * Takes what one NIC asks for. Without a network its MAC, unless given, follows from the public address.
 * @throws ApiError 400 for what cannot be read or does not go together; 404 and 409 as binding and claiming do
 */
export function attachNic(tx: Db, machine: string, input: NicInput, now: string): Change<Nic> {
  const { network: called, public_ip, port = '' } = input
  if (!called && !public_ip) throw badRequest('network or public_ip is required')
  if (!called && input.ip) throw badRequest('ip: needs network; a public address goes into public_ip')
  const publicIp = public_ip ? readPublicIp(public_ip) : undefined
  const wanted = readAttachment(input)
  const network = called ? findCalled(tx, called) : undefined
  const bound = network && bindEndpoint(tx, network, { ...wanted, machine, port }, now)
  if (bound === undefined) checkPort(tx, port, 0)
  const holder: Holder =
    network && bound ? { endpoint: bound.result, tenantId: network.tenantId } : { mac: wanted.mac, port }
  const taken = publicIp === undefined ? undefined : claim(tx, publicIp, machine, holder)
  return {
    result: toNic(network, bound?.result, taken?.row ?? publicOf(tx, bound?.result)),
    touch: distinct([...(bound?.touch ?? []), ...(taken?.touch ?? [])]),
    events: [...(bound?.events ?? []), ...(taken ? [told(tx, 'created', taken.row)] : [])],
  }
}

/**
 * Names the device of a machine's NIC in the place of any other; '' names none. `mac` says which NIC, where there are several.
 * @throws ApiError 404 for a machine without such a NIC; 400 when it has several; 409 for a device of another network
 */
export function changeNicPort(tx: Db, machine: string, { port, mac }: { port: string; mac?: string }): Change<Nic> {
  const wanted = mac === undefined || mac === '' ? undefined : readMacField(mac)
  const isMeant = (it: { mac: string }) => wanted === undefined || it.mac === wanted
  const bound = queries(tx).endpointsOfMachine.all({ machine }).filter(isMeant)
  const claims = routedQueries(tx).claimsOfMachine.all({ machine })
  const alone = claims.filter((row) => row.net === 0 && isMeant(row))
  if (bound.length + alone.length > 1)
    throw badRequest(`mac: machine ${machine} has several NICs; say which by its MAC`)
  const [row, claim] = [bound[0], alone[0]]
  if (row !== undefined) {
    const network = networkOf(tx, row)
    const { touch, events } = changePort(tx, network, endpointId(row.net, row.address), port)
    const now = certain(queries(tx).endpoint.get({ net: row.net, address: row.address }))
    return { result: toNic(network, now, publicOf(tx, now)), touch, events }
  }
  if (claim === undefined) throw notFound('NIC', wanted ?? `of machine ${machine}`)
  if (port !== claim.port && port !== claim.keptPort) checkPort(tx, port, 0)
  placeQueries(tx).setPorts.run({ ip: claim.ip, port, keptPort: '' })
  return { result: toNic(undefined, undefined, { ...claim, port }), touch: [claimRef(claim.ip)], events: [] }
}

/** Gives back everything that a machine has. */
export function detachNics(tx: Db, machine: string): Change<Nic[]> {
  const nics = nicsOf(tx, machine)
  const [touch, events]: [Ref[], EventDraft[]] = [[], []]
  for (const row of routedQueries(tx).claimsOfMachine.all({ machine })) {
    events.push(told(tx, 'deleted', row))
    touch.push(...unclaim(tx, row))
  }
  for (const row of queries(tx).endpointsOfMachine.all({ machine })) {
    const freed = freeEndpoint(tx, networkOf(tx, row), row)
    events.push(...freed.events)
    touch.push(...freed.touch)
  }
  return { result: nics, touch: distinct(touch), events }
}

/** Those with an endpoint by network and address, then those with a public address alone. */
export function nicsOf(db: Db, machine: string): Nic[] {
  const bound = queries(db).endpointsOfMachine.all({ machine })
  const alone = routedQueries(db)
    .claimsOfMachine.all({ machine })
    .filter(({ net }) => net === 0)
  return [
    ...bound.map((row) => toNic(networkOf(db, row), row, publicOf(db, row))),
    ...alone.map((row) => toNic(undefined, undefined, row)),
  ]
}

/** A NIC of a machine, and what the data plane knows it by: the number of its net and the key of its binding. */
export interface PlacedNic {
  machine: string
  nic: Nic
  net: number
  binding: string
}

/** What machines have of a tenant: by network and address, then public addresses alone. '' is the operator. */
export function nicsOfTenant(db: Db, tenant: string): PlacedNic[] {
  const bound = queries(db).endpointsOfTenant.all({ tenant })
  const alone = routedQueries(db).claimsAloneOf.all({ tenant })
  return [
    ...bound.map((row) => ({
      machine: row.machine,
      nic: toNic(networkOf(db, row), row, publicOf(db, row)),
      net: row.net,
      binding: bindingKey('networks', row.net, ipText(row.address)),
    })),
    ...alone.map((row) => ({
      machine: row.machine,
      nic: toNic(undefined, undefined, row),
      net: ROUTED_NET_BASE + row.own,
      binding: bindingKey('networks', ROUTED_NET_BASE + row.own, ipText(row.ip)),
    })),
  ]
}

/** By id, else by name. @throws ApiError 404 */
export const networkCalled = (db: Db, called: string): Network => toNetwork(findCalled(db, called))

/** The endpoint of a network that has a MAC now, bound or free; `mac` in the form `aa:bb:cc:dd:ee:ff`. */
export function endpointByMac(db: Db, networkId: string, mac: string): Endpoint | undefined {
  const network = queries(db).network.get({ id: networkId })
  const row = network && endpointWithMac(db, network, mac)
  return network && row && toEndpoint(network.id, row)
}

function findCalled(db: Db, called: string): NetworkRow {
  const row = queries(db).network.get({ id: called }) ?? queries(db).networkNamed.get({ name: called })
  if (row === undefined) throw notFound('network', called.replace(/[^\x20-\x7e]/g, '?'))
  return row
}

const networkOf = (db: Db, { net }: EndpointRow): NetworkRow => certain(queries(db).networkNumbered.get({ net }))

const publicOf = (db: Db, row: EndpointRow | undefined): ClaimRow | undefined =>
  row && routedQueries(db).claimOfEndpoint.get({ net: row.net, address: row.address })

function toNic(network: NetworkRow | undefined, row: EndpointRow | undefined, claim: ClaimRow | undefined): Nic {
  const port = row?.port ?? claim?.port
  return {
    ...(network &&
      row && { network_id: network.id, endpoint_id: endpointId(row.net, row.address), ip: ipText(row.address) }),
    mac: row?.mac ?? claim?.mac ?? '',
    ...(claim && { public_ip: ipText(claim.ip) }),
    ...(port && { port }),
  }
}

/** The pipeline compares each thing once. */
function distinct(refs: readonly Ref[]): Ref[] {
  return [...new Map(refs.map((ref) => [`${ref.area}/${ref.id}`, ref])).values()]
}
