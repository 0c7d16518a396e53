/** Domain rules of VIPs (D75). What backends may do stands in backends.ts. */
import type { Change, Db } from '../../core/area.ts'
import { alreadyExists, conflict, limitReached, notFound } from '../../core/errors.ts'
import { EVENTS_PORT, GRPC_PORT, REST_PORT } from '../../dataplane/numbers.ts'
import { isFloating } from '../float/offers.ts'
import { addressRef, vipRef } from './desired.ts'
import { readVip, shown } from './input.ts'
import { queries } from './queries.ts'
import type { LoadBalancer, VipInput } from './schemas.ts'
import { place, type VipRow, vips } from './tables.ts'
import { live, NOTHING_YET } from './view.ts'

const OWN_PORTS = [REST_PORT, GRPC_PORT, EVENTS_PORT]

/** What a creation needs to know of the node. */
export interface Surroundings {
  /** Why whoever balances here cannot do what a VIP asks for; undefined where it can. */
  beyond(vip: Pick<VipRow, 'algorithm' | 'dsr'>): string | undefined
  /** '' while it is not known. */
  uplink: string
  /** The addresses of the gateway. */
  gateway: readonly string[]
  /** What this node uses an address for already; undefined for nothing. */
  useOf(address: string): Promise<string | undefined>
  /** The device behind which a machine has an address that is routed to it; undefined for none. */
  workloadAt(address: string): Promise<string | undefined>
  max: number
}

const resource = (id: string) => `/api/v1/lb/${id}`

/** @throws ApiError 400; 409 when it exists, the limit is reached, or the node cannot have it */
export async function createVip(
  tx: Db,
  input: VipInput,
  around: Surroundings,
): Promise<Change<{ status: 'created'; load_balancer: LoadBalancer }>> {
  const fields = readVip(input)
  const { id, address, port, protocol } = fields
  if (queries(tx).vip.get({ id })) throw alreadyExists(`VIP ${id}`)
  const same = queries(tx).vipAt.get({ address, port, protocol })
  if (same) throw alreadyExists(`VIP ${same.id} with ${address}, ${protocol} port ${port || 'any'}`)
  const beyond = around.beyond(fields)
  if (beyond !== undefined) throw conflict('NOT_ACCELERATED', beyond)
  const backend = queries(tx).backendWithIp.get({ ip: address })
  if (backend)
    throw conflict('ADDRESS_IN_USE', `${address} is the address of backend ${backend.id} of VIP ${backend.vip}`)
  if ((queries(tx).vipCount.get()?.many ?? 0) >= around.max) throw limitReached('VIPs', around.max)
  const holder = await holderOf(tx, address, around)
  if (holder === 'node') spareTheNode(fields)
  if (around.uplink !== '') remember(tx, around.uplink)
  const vip = tx
    .insert(vips)
    .values({ ...fields, holder })
    .returning()
    .get()
  const created = live({ vip, backends: [] }, NOTHING_YET)
  return {
    result: { status: 'created', load_balancer: created },
    touch: [vipRef(id), addressRef(address)],
    events: [{ type: 'vip.created', resource: resource(id), data: created }],
  }
}

/** Who has the address: only what nobody has is brought up by the area. */
async function holderOf(
  tx: Db,
  address: string,
  { gateway, useOf, workloadAt }: Surroundings,
): Promise<VipRow['holder']> {
  const beside = queries(tx).vipOn.get({ address })
  if (beside) return beside.holder
  if (gateway.includes(address) || isFloating(tx, address)) return 'moving'
  const use = await useOf(address)
  const device = use === undefined ? await workloadAt(address) : undefined
  if (device !== undefined) {
    throw conflict('ADDRESS_IN_USE', `${address} is routed to a machine behind ${device}: take another address`)
  }
  if (use === undefined) return 'lb'
  if (use === 'local') return 'node'
  throw conflict('ADDRESS_IN_USE', `${address} is in use on this node already (${use}): take another address`)
}

/** On an address of its own the node must stay reachable. */
function spareTheNode({ address, port, protocol }: Pick<VipRow, 'address' | 'port' | 'protocol'>): void {
  if (port === 0) {
    throw conflict(
      'ADDRESS_IN_USE',
      `${address} is an address of this node: name the frontend_port, or it has none left`,
    )
  }
  if (protocol === 'tcp' && OWN_PORTS.includes(port)) {
    throw conflict('ADDRESS_IN_USE', `port ${port} of ${address} is that of the node's own API`)
  }
}

/** Takes its backends along, those that drain too. @throws ApiError 404 */
export function deleteVip(tx: Db, path: string): Change<{ status: 'deleted'; id: string }> {
  const { id, address } = findVip(tx, path)
  queries(tx).removeBackends.run({ vip: id })
  queries(tx).removeVip.run({ id })
  return {
    result: { status: 'deleted', id },
    touch: [vipRef(id), addressRef(address)],
    events: [{ type: 'vip.deleted', resource: resource(id), data: { id } }],
  }
}

/** The one whose id stands in a path. @throws ApiError 404 */
export function findVip(db: Db, path: string): VipRow {
  const row = queries(db).vip.get({ id: path })
  if (row === undefined) throw notFound('VIP', shown(path))
  return row
}

/** Keeps in mind where the addresses are; they are there already. */
export function rememberPlace(tx: Db, link: string): Change<void> {
  remember(tx, link)
  return { result: undefined, touch: [], events: [] }
}

function remember(tx: Db, link: string): void {
  tx.insert(place)
    .values({ id: 1, interface: link })
    .onConflictDoUpdate({ target: place.id, set: { interface: link } })
    .run()
}
