/** Domain rules of floating IPs. Whether the kernel can put an address on is the kernel's to say. */
import { eq } from 'drizzle-orm'
import type { Change, Db, EventDraft } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, limitReached, notFound } from '../../core/errors.ts'
import { hostAddress } from '../gateway/offers.ts'
import { addressRef, placeOf } from './desired.ts'
import { queries } from './queries.ts'
import type { FloatingIp, FloatingIpInput } from './schemas.ts'
import { type AddressRow, addresses, place } from './tables.ts'

/** What a creation needs to know of the node. */
export interface Surroundings {
  /** Never used before. */
  id: string
  /** What this node is called; the first name is the one that it goes by. */
  names: readonly [string, ...string[]]
  /** '' while it is not known. */
  uplink: string
  /** The addresses of the gateway, which is its alone, wherever it is. */
  vips: readonly string[]
  /** What this node uses the address for already; undefined for nothing. */
  use: string | undefined
  max: number
  now: string
}

const resource = (id: string) => `/api/v1/float/${id}`

/** The canonical address. @throws ApiError 400 */
export function readIp({ ip }: Pick<FloatingIpInput, 'ip'>): string {
  const address = hostAddress(ip)
  if (address === undefined)
    throw badRequest('ip: must be the address of a host, IPv4 or IPv6, without a prefix length')
  return address.text
}

/** Where nodes cannot be paired, an address stays with its primary (ver-03). */
export function toFloatingIp({ id, ip, primary, standby, createdAt }: AddressRow, here: string): FloatingIp {
  const state = primary === '' ? 'active' : 'standby'
  const host = primary || here
  return { id, ip, primary: host, standby, active_host: host, state, created_at: createdAt }
}

export function createFloatingIp(
  tx: Db,
  input: FloatingIpInput,
  { id, names, uplink, vips, use, max, now }: Surroundings,
): Change<{ status: 'created'; floating_ip: FloatingIp }> {
  const ip = readIp(input)
  const { standby = '' } = input
  const primary = input.primary === undefined || names.includes(input.primary) ? '' : input.primary
  if (standby !== '' && (primary === '' ? names.includes(standby) : standby === primary))
    throw badRequest('standby: must be another node than primary')
  if (queries(tx).withIp.get({ ip })) throw alreadyExists(`floating IP ${ip}`)
  if (vips.includes(ip)) throw conflict('ADDRESS_IN_USE', `${ip} is the VIP of the gateway (gateway_vip)`)
  if (use) throw conflict('ADDRESS_IN_USE', `${ip} is in use on this node already (${use}): take it away first`)
  if ((queries(tx).count.get()?.count ?? 0) >= max) throw limitReached('floating IPs', max)
  const row = { id, ip, primary, standby, createdAt: now }
  const link = placeOf(tx, uplink)
  if (row.primary === '' && link === '') {
    throw conflict('NO_UPLINK', 'no interface for the address: the node has no uplink, name one in uplink')
  }
  if (link !== '') remember(tx, link)
  const made = tx.insert(addresses).values(row).returning().get()
  return {
    result: { status: 'created', floating_ip: toFloatingIp(made, names[0]) },
    touch: [addressRef(made.id)],
    events: [floatingIpCreated(made, names[0])],
  }
}

/** The one whose id stands in a path. @throws ApiError 404 */
export function findFloatingIp(db: Db, path: string): AddressRow {
  const row = queries(db).one.get({ id: path })
  if (row === undefined) throw notFound('floating IP', path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

export function deleteFloatingIp(tx: Db, path: string): Change<{ status: 'deleted'; id: string }> {
  const { id } = findFloatingIp(tx, path)
  tx.delete(addresses).where(eq(addresses.id, id)).run()
  return {
    result: { status: 'deleted', id },
    touch: [addressRef(id)],
    events: [floatingIpDeleted(id)],
  }
}

/** As the node tells it that is called `here`. */
export const floatingIpCreated = (row: AddressRow, here: string): EventDraft => ({
  type: 'floating_ip.created',
  resource: resource(row.id),
  data: toFloatingIp(row, here),
})
export const floatingIpDeleted = (id: string): EventDraft => ({
  type: 'floating_ip.deleted',
  resource: resource(id),
  data: { id },
})

/** Keeps in mind where the addresses are; they are there already. */
export function rememberPlace(tx: Db, link: string): Change<void> {
  remember(tx, link)
  return { result: undefined, touch: [], events: [] }
}

export function remember(tx: Db, link: string): void {
  tx.insert(place)
    .values({ id: 1, interface: link })
    .onConflictDoUpdate({ target: place.id, set: { interface: link } })
    .run()
}
