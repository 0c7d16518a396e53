/** Domain rules of reservations: an endpoint that is bound to a MAC beforehand, for no machine. */
import type { Change, Db } from '../../core/area.ts'
import { badRequest, conflict, lacks, notFound } from '../../core/errors.ts'
import { parseMac, parsePrefix } from '../../dataplane/nft/text.ts'
import {
  type BoundEndpoint,
  boundEndpoint,
  networkCalled,
  networkId,
  reservedEndpoints,
  reserveEndpoint,
  type ServedNetwork,
  servedNetworks,
  unreserveEndpoint,
} from '../networks/offers.ts'
import { addressNumber } from './address.ts'
import type { Reservation, ReservationInput } from './schemas.ts'

/**
 * Binds an endpoint of a network that is served to a MAC; one that is reserved for it already stays as it is.
 * @throws ApiError 400 for what cannot be read or a MAC of another endpoint, 404 for no such network, 409 when it is bound
 */
export function reserve(
  tx: Db,
  input: ReservationInput,
  now: string,
): Change<{ status: 'reserved'; reservation: Reservation }> {
  const [address, mac] = [addressNumber(input.ip), parseMac(input.mac)]
  if (address === undefined) throw badRequest('ip: not an IPv4 address')
  if (mac === undefined) throw badRequest('mac: not a MAC address')
  const { net } = servedCalled(tx, input.network, address, input.ip)
  const held = boundEndpoint(tx, net, address)
  if (held?.mac === mac && held.reservedAt !== '') {
    return { result: { status: 'reserved', reservation: toReservation(tx, held) }, touch: [], events: [] }
  }
  const { result, ...change } = reserveEndpoint(tx, net, { ip: input.ip, mac }, now)
  return { ...change, result: { status: 'reserved', reservation: toReservation(tx, result) } }
}

/** Frees the endpoint again, unless a machine has taken it meanwhile. @throws ApiError 404; 409 for one of several */
export function unreserve(
  tx: Db,
  which: string,
  network: string | undefined,
): Change<{ status: 'unreserved'; reservation: Reservation }> {
  const [address, mac] = [addressNumber(which), parseMac(which)]
  const id = network ? networkCalled(tx, network).id : undefined
  const found = reservedEndpoints(tx).filter(
    (it) => (it.address === address || it.mac === mac) && (id === undefined || networkId(tx, it.net) === id),
  )
  const [one, ...others] = found
  if (one === undefined) throw lacks(which.replace(/[^\x21-\x7e]/g, '?'), 'reservation')
  if (others.length > 0) {
    const networks = found.map(({ net }) => networkId(tx, net)).join(', ')
    throw conflict('AMBIGUOUS', `${which} is reserved in several networks (${networks}); name one of them`)
  }
  const reservation = toReservation(tx, one)
  return { ...unreserveEndpoint(tx, one), result: { status: 'unreserved', reservation } }
}

export const everyReservation = (db: Db): Reservation[] => reservedEndpoints(db).map((it) => toReservation(db, it))

function servedCalled(tx: Db, called: string | undefined, address: number, ip: string): ServedNetwork {
  const served = servedNetworks(tx)
  if (called) {
    const { id, name } = networkCalled(tx, called)
    const found = served.find((network) => network.id === id)
    if (found) return found
    throw conflict(
      'NOT_SERVED',
      `network ${name} is not served over DHCP; networks host-gateway ${id} --dhcp does that`,
    )
  }
  // Of networks that share an address only one has the host gateway, which DHCP implies (D45).
  const found = served.find(({ cidr }) => holds(cidr, address))
  if (found === undefined) throw notFound('network that is served over DHCP and holds', ip)
  return found
}

function holds(cidr: string, address: number): boolean {
  const { bytes = [], length = 32 } = parsePrefix(cidr) ?? {}
  const first = bytes.reduce((sum, byte) => sum * 256 + byte, 0)
  return address >= first && address < first + 2 ** (32 - length)
}

const toReservation = (db: Db, { net, mac, ip, machine, reservedAt }: BoundEndpoint): Reservation => ({
  network_id: networkId(db, net) ?? '',
  ...{ mac, ip, machine, created_at: reservedAt },
})
