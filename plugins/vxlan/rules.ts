/** Domain rules of overlays and their peers (D64). */
import type { Change, Db, EventDraft, Ref } from '../../core/area.ts'
import { alreadyExists, badRequest, conflict, limitReached, notFound } from '../../core/errors.ts'
import { selfInCluster } from '../../core/replication.ts'
import { carriedOn, networkCalled } from '../networks/offers.ts'
import { inputRef, joined, networkRef, peerRefs } from './desired.ts'
import { readMac, readSubnet, readVni, readVtep, shown } from './input.ts'
import type { Local } from './local.ts'
import { queries } from './queries.ts'
import type { Network, NetworkInput, Peer, PeerInput } from './schemas.ts'
import type { NetworkRow, PeerRow } from './tables.ts'

type Shown = Omit<Network, 'peers'>

const resource = (vni: number) => `/api/v1/vxlan/networks/${vni}`
const isIpv6 = (address: string) => address.includes(':')

/**
 * `local` is the VTEP that the node has now, or what to do about there being none.
 * @throws ApiError 400, 404 for an unknown private network, 409 when it exists, the limit is reached, there is no VTEP, or
 * several private networks have the subnet
 */
export function createNetwork(
  tx: Db,
  input: NetworkInput,
  local: Local | string,
  max: number,
): Change<{ status: 'created' } & Shown> {
  const row: NetworkRow = { vni: input.vni, subnet: readSubnet(input.subnet ?? ''), network: '' }
  if (queries(tx).network.get({ vni: row.vni })) throw alreadyExists(`VXLAN network ${row.vni}`)
  if (input.network) {
    const called = networkCalled(tx, input.network)
    if (row.subnet !== '' && row.subnet !== called.cidr) {
      throw badRequest(`subnet: network ${called.name} has ${called.cidr}`)
    }
    Object.assign(row, { network: called.id, subnet: called.cidr })
  }
  const [one, another] = row.network !== '' || row.subnet === '' ? [] : carriedOn(tx, row.subnet)
  if (another)
    throw conflict('AMBIGUOUS', `several private networks have the range ${row.subnet}: say which by network`)
  if (one) row.network = one.id
  if ((queries(tx).networkCount.get()?.many ?? 0) >= max) throw limitReached('VXLAN networks', max)
  const moved = settleLocal(tx, local)
  queries(tx).addNetwork.run(row)
  const { peers, ...view } = withPeers(tx, row)
  return {
    result: { status: 'created', ...view },
    touch: distinct([...moved, networkRef(row.vni), inputRef, ...refsOfPeers(tx, row.vni)]),
    events: [{ type: 'vxlan.created', resource: resource(row.vni), data: { ...view, peers } }],
  }
}

/** Takes its peers along, unless other members of a cluster may have them in force. @throws ApiError 404 */
export function deleteNetwork(tx: Db, path: string): Change<{ status: 'deleted'; vni: number }> {
  const { vni } = findNetwork(tx, path)
  const touch = refsOfPeers(tx, vni)
  if (selfInCluster(tx) === undefined) queries(tx).removePeers.run({ vni })
  queries(tx).removeNetwork.run({ vni })
  return {
    result: { status: 'deleted', vni },
    touch: [networkRef(vni), inputRef, ...touch],
    events: [{ type: 'vxlan.deleted', resource: resource(vni), data: { vni } }],
  }
}

/** @throws ApiError 400, 404 for an unknown VNI, 409 when host or MAC is taken there, the limit is reached, or the VTEP cannot be reached */
export function createPeer(
  tx: Db,
  path: string,
  input: PeerInput,
  max: number,
): Change<{ status: 'added'; vni: number; host: string }> {
  const [vtep, mac, host] = [readVtep(input.vtep_ip), readMac(input.mac ?? ''), input.host]
  const { vni } = findNetwork(tx, path)
  const row: PeerRow = { vni, host, mac, vtep: vtep.text }
  if (queries(tx).peer.get({ vni, host })) throw alreadyExists(`peer ${host} of VXLAN network ${vni}`)
  const same = queries(tx).peerWithMac.get({ vni, mac })
  if (same) throw alreadyExists(`peer ${same.host} with MAC ${mac}`)
  if ((queries(tx).peerCountOf.get({ vni })?.many ?? 0) >= max) throw limitReached('VXLAN peers', max)
  const own = queries(tx).local.get()?.address ?? ''
  if (own === row.vtep) throw badRequest(`vtep_ip: ${own} is the node's own VTEP`)
  if (isIpv6(own) !== isIpv6(row.vtep)) {
    throw conflict('ADDRESS_FAMILY', `vtep_ip: the node's own VTEP is ${own}; set vxlan_local_ip for another family`)
  }
  queries(tx).addPeer.run(row)
  return {
    result: { status: 'added', vni, host },
    touch: peerRefs(row),
    events: [peerCreated(row)],
  }
}

/** Also one that waits for its overlay. @throws ApiError 404 */
export function deletePeer(
  tx: Db,
  path: string,
  host: string,
): Change<{ status: 'removed'; vni: number; host: string }> {
  const vni = readVni(path)
  const row = queries(tx).peer.get({ vni, host })
  if (row === undefined) {
    findNetwork(tx, path)
    throw notFound('peer', shown(host))
  }
  queries(tx).removePeer.run({ vni, host })
  return {
    result: { status: 'removed', vni, host },
    touch: peerRefs(row),
    events: [peerDeleted(row)],
  }
}

export const peerCreated = (row: PeerRow): EventDraft => ({
  type: 'vxlan_peer.created',
  resource: `${resource(row.vni)}/peers`,
  data: { vni: row.vni, ...toPeer(row) },
})
export const peerDeleted = ({ vni, host }: Pick<PeerRow, 'vni' | 'host'>): EventDraft => ({
  type: 'vxlan_peer.deleted',
  resource: `${resource(vni)}/peers`,
  data: { vni, host },
})

/** The VTEP of the node is another one now: all overlays go out by it. @throws ApiError 409 */
export function moveLocal(tx: Db, local: Local): Change<void> {
  return { result: undefined, touch: settleLocal(tx, local), events: [] }
}

export const noVtep = (why: string) => conflict('NO_VTEP', `no local VTEP: ${why}`)

/** Peers that are not in force may come into force with it. @throws ApiError 409 when there is none, or one that peers cannot be reached from */
function settleLocal(tx: Db, found: Local | string): Ref[] {
  const before = queries(tx).local.get()
  if (typeof found === 'string') throw noVtep(found)
  const { address, mtu } = found
  if (before?.address === address && before.mtu === mtu) return []
  const old = before?.address ?? ''
  const turns = old !== '' && isIpv6(old) !== isIpv6(address)
  const stranded = turns ? queries(tx).ownOfFamily.get({ ipv6: isIpv6(old) ? 1 : 0 }) : undefined
  if (stranded) {
    const why = `peer ${stranded.host} of VXLAN network ${stranded.vni} is at ${stranded.vtep}`
    throw conflict('ADDRESS_FAMILY', `local VTEP ${address}: ${why}: set vxlan_local_ip, or delete the peer`)
  }
  // The peers of a cluster are those of all its members, this node among them.
  if (selfInCluster(tx) === undefined && address !== old && queries(tx).ownAt.get({ vtep: address })) {
    throw conflict('ADDRESS_IN_USE', `local VTEP ${address} is that of a peer: set vxlan_local_ip, or delete the peer`)
  }
  queries(tx).setLocal.run({ address, mtu })
  const peers = turns
    ? queries(tx).ownOfFamily.all({ ipv6: isIpv6(address) ? 1 : 0 })
    : [old, address].flatMap((vtep) => queries(tx).ownAt.all({ vtep }))
  return [
    ...queries(tx)
      .allNetworks.all()
      .map(({ vni }) => networkRef(vni)),
    ...peers.flatMap(peerRefs),
  ]
}

const refsOfPeers = (tx: Db, vni: number): Ref[] => queries(tx).peersOf.all({ vni }).flatMap(peerRefs)

/** The pipeline compares each thing once. */
const distinct = (refs: readonly Ref[]): Ref[] => [...new Map(refs.map((ref) => [ref.id, ref])).values()]

/** @throws ApiError 404 */
export function findNetwork(db: Db, path: string): NetworkRow {
  const row = queries(db).network.get({ vni: readVni(path) })
  if (row === undefined) throw notFound('VXLAN network', shown(path))
  return row
}

export function toNetwork(db: Db, row: NetworkRow): Shown {
  const to = joined(db, row)
  return {
    vni: row.vni,
    subnet: row.subnet,
    ...(to === 'open' ? {} : 'closed' in to ? { closed: to.closed } : { network_id: to.id }),
  }
}

export const withPeers = (db: Db, row: NetworkRow): Network => ({
  ...toNetwork(db, row),
  peers: queries(db).peersOf.all({ vni: row.vni }).map(toPeer),
})

export const toPeer = ({ host, mac, vtep }: PeerRow): Peer => ({ host, mac, vtep_ip: vtep })
