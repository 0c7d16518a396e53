/** Domain rules of private networks: input → rows, and what changed. Knows neither Fastify nor the kernel. */
import type { Change, Db, EventDraft, Ref } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, limitReached, notFound } from '../../core/errors.ts'
import { admit, type Gone } from '../../core/tenancy.ts'
import { createPool, overlapping, removePool } from '../ipam/offers.ts'
import { insideRef, netRef } from './desired.ts'
import { type Block, blockText, ipText, parseBlock, parseIp } from './ipv4.ts'
import { nextNumber, PORTION, queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'
import type { GatewayInput, Network, NetworkInput } from './schemas.ts'
import type { NetworkRow } from './tables.ts'
import { endpointId, toNetwork } from './views.ts'

/** Endpoint ids have four digits for the number of the network. */
const MOST_NETS = 0xffff

/** What the node can do for a network. */
export interface Services {
  uplink: boolean
  dhcp: boolean
}

export interface Creation extends Services {
  id: string
  now: string
  max: number
}

export function createNetwork(
  tx: Db,
  input: NetworkInput,
  { id, now, max, ...services }: Creation,
): Change<{ status: 'created'; network: Network }> {
  const block = readBlock(input.cidr)
  const gateway = readGateway(input.gateway, block)
  const option = readOption(input.host_gateway === true, input, gateway, services)
  const tenantId = admit(tx, input.tenant_id, 'networks')
  if (queries(tx).networkNamed.get({ name: input.name })) throw alreadyExists(`network ${input.name}`)
  checkRoom(tx, block, tenantId, max)
  if (option.hostGateway) checkGateways(tx, block, 0)
  if (input.vlan !== undefined) checkVlan(tx, input.vlan)
  const { id: pool } = createPool(
    tx,
    { name: input.name, subnet: blockText(block), gateway: gateway === 0 ? '' : ipText(gateway), tenant_id: tenantId },
    `network ${id}`,
  )
  const row: NetworkRow = {
    ...{ id, name: input.name, first: block.first, last: block.last, gateway, vlan: input.vlan ?? 0, tenantId, pool },
    ...option,
    net: nextNumber(tx, 'net', MOST_NETS, (net) => queries(tx).networkNumbered.get({ net }) !== undefined),
    createdAt: now,
  }
  queries(tx).addNetwork.run({ ...row, ...stored(option) })
  const network = toNetwork(row)
  return {
    result: { status: 'created', network },
    touch: [netRef(row.net), ...insideRefs(tx, row)],
    events: [{ type: 'network.created', resource: `/api/v1/networks/${id}`, data: network }],
  }
}

/** @throws ApiError 404; 409 while an endpoint is bound (D9) */
export async function deleteNetwork(tx: Db, id: string): Promise<Change<{ status: 'deleted'; id: string }>> {
  const row = findNetwork(tx, id)
  const bound = queries(tx).boundIn.get({ net: row.net })
  if (bound) {
    const which = `${endpointId(bound.net, bound.address)} (${ipText(bound.address)})`
    throw conflict('IN_USE', `network ${row.name} is in use: endpoint ${which} is bound; detach it first`)
  }
  return { result: { status: 'deleted', id }, ...(await removeNetwork(tx, row)) }
}

/** Removes a network with its pool and what it says of its endpoints; those that are bound are for the caller to touch. */
export async function removeNetwork(tx: Db, row: NetworkRow): Promise<Gone> {
  const { id, net, pool } = row
  const touch = [netRef(net), ...insideRefs(tx, row)]
  queries(tx).removeNetwork.run({ id })
  while (queries(tx).clearEndpoints.run({ net }).changes === PORTION) await new Promise(setImmediate)
  await removePool(tx, pool)
  return { touch, events: [{ type: 'network.deleted', resource: `/api/v1/networks/${id}`, data: { id } }] }
}

/** The whole setting: what it does not ask for is taken away. `undefined` takes the host gateway itself away. */
export function setHostGateway(
  tx: Db,
  id: string,
  input: GatewayInput | undefined,
  services: Services,
): Change<{ status: 'updated'; network: Network }> {
  const old = findNetwork(tx, id)
  const option = readOption(input !== undefined, input ?? {}, old.gateway, services)
  if (option.hostGateway && !old.hostGateway) checkGateways(tx, old, old.net)
  queries(tx).setGateway.run({ id, ...stored(option) })
  const network = toNetwork({ ...old, ...option })
  return {
    result: { status: 'updated', network },
    touch: [netRef(old.net)],
    events: [updated(network)],
  }
}

export function findNetwork(db: Db, id: string): NetworkRow {
  const row = queries(db).network.get({ id })
  if (row === undefined) throw notFound('network', id.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return row
}

/** A block of private addresses now is, or no longer is, among those never translated: those inside it may show up or vanish. */
export function insideRefs(tx: Db, block: Block): Ref[] {
  const blocks = queries(tx).blocksInside.all({ first: block.first, last: block.last })
  const itself = blocks.some(({ first, last }) => first === block.first && last === block.last)
  return (itself ? blocks : [block, ...blocks]).map(insideRef)
}

type Option = Pick<NetworkRow, 'hostGateway' | 'snat' | 'dhcp'>

function readOption(wanted: boolean, input: GatewayInput, gateway: number, services: Services): Option {
  const { snat = false, dhcp = false } = input
  const hostGateway = wanted || snat || dhcp
  if (hostGateway && gateway === 0) {
    throw badRequest('host_gateway: needs gateway, the address that the node shall hold in the network')
  }
  if (snat && !services.uplink) {
    throw badRequest('snat: this node has no uplink; name its public interface in the configuration key uplink')
  }
  if (dhcp && !services.dhcp) throw badRequest('dhcp: DHCP is not available on this node')
  return { hostGateway, snat, dhcp }
}

const stored = ({ hostGateway, snat, dhcp }: Option) => ({
  hostGateway: Number(hostGateway),
  snat: Number(snat),
  dhcp: Number(dhcp),
})

function readBlock(cidr: string): Block {
  const block = parseBlock(cidr)
  if (typeof block === 'string') throw badRequest(`cidr: ${block}`)
  if (block.length < 16 || block.length > 30) throw badRequest('cidr: must be from /16 to /30')
  return block
}

function readGateway(text: string | undefined, block: Block): number {
  if (!text) return 0
  const gateway = parseIp(text)
  if (gateway === undefined) throw badRequest('gateway: not an IPv4 address')
  if (gateway > block.first && gateway < block.last) return gateway
  throw badRequest(`gateway: must be a host address inside ${blockText(block)}`)
}

function checkRoom(tx: Db, block: Block, tenantId: string, max: number): void {
  const taken = overlapping(tx, tenantId, blockText(block))
  if (taken) throw badRequest(`cidr: overlaps ${taken}`)
  const range = routedQueries(tx).rangeFrom.get({ ip: block.first })
  if (range && range.first <= block.last) {
    throw conflict('OVERLAP', `cidr: overlaps the routed addresses ${blockText(range)}`)
  }
  if ((queries(tx).networkCount.get()?.count ?? 0) >= max) throw limitReached('networks', max)
}

/** The node can hold one gateway for a range only (D45). `net`: the network itself, 0 for one that is not there yet. */
function checkGateways(tx: Db, { first, last }: Block, net: number): void {
  const other = queries(tx).gatewayMeeting.get({ first, last, net })
  if (other) {
    throw conflict(
      'OVERLAP',
      `host_gateway: network ${other.name} (${blockText(other)}) overlaps and has the host gateway already`,
    )
  }
}

function checkVlan(tx: Db, vlan: number): void {
  const other = queries(tx).networkOnVlan.get({ vlan })
  if (other) throw conflict('VLAN_TAKEN', `vlan: ${vlan} belongs to network ${other.name}`)
}

const updated = (network: Network): EventDraft => ({
  type: 'network.updated',
  resource: `/api/v1/networks/${network.id}`,
  data: network,
})
