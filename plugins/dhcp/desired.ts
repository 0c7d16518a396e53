/** Networks that are served, and what their MACs are bound to → what the responder shall know. Pure. */
import type { Area, Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { former } from '../../dataplane/bpf/port/entries.ts'
import type { Entry } from '../../dataplane/entry.ts'
import { WORK_BRIDGE } from '../../dataplane/numbers.ts'
import {
  type DhcpBinding,
  type DhcpNetwork,
  dhcpBinding,
  dhcpNetwork,
  dhcpRefusal,
} from '../../dataplane/responder/entries.ts'
import {
  type BoundEndpoint,
  boundEndpoint,
  boundEndpoints,
  readRef,
  type ServedNetwork,
  servedNetwork,
  servedNetworks,
} from '../networks/offers.ts'
import { addressText } from './address.ts'
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
const formerId = (mac: string) => `former/${mac}`
/** Of what is told of a MAC that has lost its binding. */
export const formerRef = ({ mac }: { mac: string }) => ({ area: AREA, id: formerId(mac) })

export const desired: Desired = {
  *all(db, config) {
    for (const network of servedNetworks(db)) {
      yield networkEntry(network, config)
      for (const endpoint of boundEndpoints(db, network.net)) yield bindingEntry(db, endpoint)
    }
    yield* everyFormer(db)
  },
  one(db, id, config) {
    const [kind, ...rest] = id.split('/')
    if (kind === 'former') return formerEntries(db, rest[0] ?? '')
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
    if (place?.kind === 'endpoint') {
      yield bindingId(place.net, place.address)
      for (const { mac } of queries(db).heldOfAddress.all(place)) yield formerId(mac)
      return
    }
    if (place?.kind !== 'net') return
    const { net } = place
    yield netId(net)
    for (const { mac } of queries(db).heldOfNet.all({ net })) yield formerId(mac)
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

/** A MAC that has a lease somewhere and is not bound there any more: its client is refused there. The newest such lease counts. */
function formerEntries(db: Db, mac: string): Entry[] {
  for (const { net, address, expiresAt } of queries(db).heldOfMac.all({ mac })) {
    if (servedNetwork(db, net) === undefined || boundEndpoint(db, net, address)?.mac === mac) continue
    return [
      former(AREA, { mac, net, address: addressText(address) }),
      dhcpRefusal(AREA, { mac, net, until: expiresAt }),
    ]
  }
  return []
}

function* everyFormer(db: Db): Generator<Entry> {
  const seen = new Set<string>()
  for (let after = 0; ; ) {
    const page = queries(db).held.all({ after })
    for (const { mac } of page) {
      if (!seen.has(mac)) yield* formerEntries(db, mac)
      seen.add(mac)
    }
    const last = page.at(-1)
    if (last === undefined) return
    after = last.id
  }
}
