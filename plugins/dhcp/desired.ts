/** Networks that are served, and what their MACs are bound to → what the responder shall know. Pure. */
import type { Area, Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { type DhcpBinding, type DhcpNetwork, dhcpBinding, dhcpNetwork } from '../../dataplane/responder/entries.ts'
import {
  type BoundEndpoint,
  boundEndpoint,
  boundEndpoints,
  readRef,
  type ServedNetwork,
  servedNetwork,
  servedNetworks,
} from '../networks/offers.ts'
import { queries } from './queries.ts'

const AREA = 'dhcp'
/** Stands in `dhcp_dns` for the gateway address of each network. */
export const GATEWAY = 'gateway'
/** RFC 1123 §2.1. A machine may be called otherwise; then its guest is told no name. */
const LABEL = /^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/

const netId = (net: number) => `net/${net}`
const bindingId = (net: number, address: number) => `binding/${net}/${address}`
export const bindingRef = ({ net, address }: { net: number; address: number }) => ({
  area: AREA,
  id: bindingId(net, address),
})

export const desired: Desired = {
  *all(db, config) {
    for (const network of servedNetworks(db)) {
      yield networkEntry(network, config)
      for (const endpoint of boundEndpoints(db, network.net)) yield bindingEntry(db, endpoint)
    }
  },
  one(db, id, config) {
    const [kind, ...rest] = id.split('/')
    const [net = 0, address = 0] = rest.map(Number)
    const network = servedNetwork(db, net)
    if (network === undefined) return []
    if (kind === 'net') return [networkEntry(network, config)]
    const endpoint = boundEndpoint(db, net, address)
    return endpoint ? [bindingEntry(db, endpoint)] : []
  },
}

/** What of this area a network or an endpoint is in. */
export const follows: NonNullable<Area['follows']> = {
  *networks(db, refId) {
    const place = readRef(refId)
    if (place?.kind === 'endpoint') return yield bindingId(place.net, place.address)
    if (place?.kind !== 'net') return
    const { net } = place
    yield netId(net)
    // With the option its bindings come and go.
    if (servedNetwork(db, net)) for (const endpoint of boundEndpoints(db, net)) yield bindingId(net, endpoint.address)
  },
}

function networkEntry({ net, cidr, gateway }: ServedNetwork, config: Config): DhcpNetwork {
  return dhcpNetwork(AREA, {
    ...{ net, link: WORK_BRIDGE, cidr, gateway },
    leaseSeconds: config.int('dhcp_lease_seconds'),
    mtu: config.int('dhcp_mtu'),
    dns: [...new Set(config.list('dhcp_dns').map((text) => (text === GATEWAY ? gateway : text)))],
    domain: config.text('dhcp_domain'),
  })
}

function bindingEntry(db: Db, { net, address, ip, mac, machine }: BoundEndpoint): DhcpBinding {
  const releasedAt = queries(db).lease.get({ net, address, mac })?.releasedAt ?? 0
  return dhcpBinding(AREA, {
    ...{ net, address: ip, mac },
    hostname: LABEL.test(machine) ? machine : '',
    ...(releasedAt > 0 && { endedAt: releasedAt }),
  })
}
