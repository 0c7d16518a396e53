/** Domain rules of reservations: an endpoint that is bound to a MAC beforehand, for no machine. */
import type { Change, Db } from '../../core/area.ts'
import { badRequest, conflict, notFound } from '../../core/errors.ts'
import { parseMac, parsePrefix } from '../../dataplane/nft/text.ts'
import {
  type BoundEndpoint,
  boundEndpoint,
  networkCalled,
  networkId,
  reserveEndpoint,
  type ServedNetwork,
  servedNetworks,
  unreserveEndpoint,
} from '../networks/offers.ts'
import { addressNumber } from './address.ts'
import { queries } from './queries.ts'
import type { Reservation, ReservationInput } from './schemas.ts'
import type { ReservationRow } from './tables.ts'

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
  const known = queries(tx).reservation.get({ net, address })
  if (known && held?.mac === mac && known.mac === mac) {
    return { result: { status: 'reserved', reservation: toReservation(tx, known, held) }, touch: [], events: [] }
  }
  const { result, touch, events } = reserveEndpoint(tx, net, { ip: input.ip, mac }, now)
  const row: ReservationRow = { net, address, mac: result.mac, createdAt: now }
  queries(tx).putReservation.run(row)
  return { result: { status: 'reserved', reservation: toReservation(tx, row, result) }, touch, events }
}

/** Frees the endpoint again, unless a machine has taken it meanwhile. @throws ApiError 404; 409 for one of several */
export function unreserve(
  tx: Db,
  which: string,
  network: string | undefined,
): Change<{ status: 'unreserved'; reservation: Reservation }> {
  const [address, mac] = [addressNumber(which), parseMac(which)]
  const id = network ? networkCalled(tx, network).id : undefined
  const found = everyReservation(tx).filter(
    ({ row, reservation }) =>
      (row.address === address || row.mac === mac) && (id === undefined || reservation.network_id === id),
  )
  const [one, ...others] = found
  if (one === undefined) throw notFound('reservation of', which.replace(/[^\x21-\x7e]/g, '?'))
  if (others.length > 0) {
    const networks = found.map(({ reservation }) => reservation.network_id).join(', ')
    throw conflict('AMBIGUOUS', `${which} is reserved in several networks (${networks}); name one of them`)
  }
  queries(tx).removeReservation.run(one.row)
  const { touch, events } = unreserveEndpoint(tx, one.endpoint)
  return { result: { status: 'unreserved', reservation: one.reservation }, touch, events }
}

/** Those that still count: whoever detached the endpoint has ended it. */
export const everyReservation = (
  db: Db,
): { row: ReservationRow; endpoint: BoundEndpoint; reservation: Reservation }[] =>
  queries(db)
    .allReservations.all()
    .flatMap((row) => {
      const endpoint = boundEndpoint(db, row.net, row.address)
      return endpoint?.mac === row.mac ? [{ row, endpoint, reservation: toReservation(db, row, endpoint) }] : []
    })

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

const toReservation = (
  db: Db,
  { net, mac, createdAt }: ReservationRow,
  { ip, machine }: BoundEndpoint,
): Reservation => ({
  network_id: networkId(db, net) ?? '',
  ...{ mac, ip, machine, created_at: createdAt },
})
