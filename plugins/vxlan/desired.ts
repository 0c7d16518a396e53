/** Rows → devices, forwarding entries, ports of br-work, and who may send to the tunnels. Pure. */
import type { Db, Desired, Ref } from '../../core/area.ts'
import { type Overlay, overlay, type Peer, peer } from '../../dataplane/bpf/port/entries.ts'
import type { Chain, Entry, SetElement } from '../../dataplane/entry.ts'
import { forwarding, type LinkEntry, link } from '../../dataplane/netlink/entries.ts'
import { type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import { NET_MAX, STAMP, STAMP_MASK, STAMP_OUTSIDE, WORK_BRIDGE } from '../../dataplane/numbers.ts'
import { opening } from '../firewall/offers.ts'
import { type Carried, carried, carriedBy } from '../networks/offers.ts'
import { everyPeer, queries } from './queries.ts'
import { INPUT, vteps } from './skeleton.ts'
import type { LocalRow, NetworkRow, PeerRow } from './tables.ts'

const AREA = 'vxlan'
const hex = (number: number) => `0x${(number >>> 0).toString(16).padStart(8, '0')}`
/** IANA; D64. */
export const VXLAN_PORT = 4789
/** Outer headers of IP, UDP and VXLAN, and the inner Ethernet header. */
const OVERHEAD = { 4: 50, 6: 70 }
/** All zero: frames to many and to MACs that are not known. */
const FLOOD = '00:00:00:00:00:00'
/** What came in by `br-work`, by another port than an uplink: a guest's, though it may bear the address of a peer. */
const NOT_OUTSIDE = `meta mark & ${hex(STAMP_MASK)} == ${hex(STAMP)} meta mark != ${hex(STAMP + STAMP_OUTSIDE)}`
/** No private network has this number, and so no port. */
const NOBODYS_NET = NET_MAX

/** Ids of refs. What two peers would both render has one of its own, so that every entry comes from one ref. */
const ref = (id: string): Ref => ({ area: AREA, id })
export const networkRef = (vni: number): Ref => ref(`net/${vni}`)
/** There while there is any network. */
export const inputRef: Ref = ref('input')
export const peerRefs = ({ vni, mac, vtep }: PeerRow): Ref[] => [
  ref(`flood/${vni}/${vtep}`),
  ref(`vtep/${vtep}`),
  ...(mac === '' ? [] : [ref(`mac/${vni}/${mac}`)]),
]

/** `vx<vni>` */
export const deviceOf = (vni: number): string => `vx${vni}`

export const desired: Desired = {
  *all(db) {
    yield* inputEntries(db)
    for (const row of queries(db).allNetworks.all()) yield* networkEntries(db, row)
    for (const { vtep } of queries(db).vtepsInForce.all()) yield* vtepEntries(vtep)
    const flooded = { vni: 0, vteps: new Set<string>() }
    for (const { vni, mac, vtep } of everyPeer(db)) {
      if (vni !== flooded.vni) Object.assign(flooded, { vni, vteps: new Set() })
      if (!flooded.vteps.has(vtep)) yield forwards(vni, FLOOD, vtep)
      flooded.vteps.add(vtep)
      if (mac !== '') yield* towards(db, { vni, mac, vtep })
    }
  },
  one(db, id) {
    const [kind, first = '', second = ''] = id.split('/')
    const vni = Number(first)
    switch (kind) {
      case 'net':
        return queries(db)
          .network.all({ vni })
          .flatMap((row) => networkEntries(db, row))
      case 'flood':
        return queries(db).vniVtepInForce.get({ vni, vtep: second }) ? [forwards(vni, FLOOD, second)] : []
      case 'mac':
        return queries(db)
          .macInForce.all({ vni, mac: second })
          .flatMap((row) => towards(db, row))
      case 'vtep':
        return queries(db).vtepInForce.get({ vtep: first }) ? vtepEntries(first) : []
      default:
        return inputEntries(db)
    }
  },
}

/** Refs that follow from a ref of the private networks. */
export function followed(db: Db, id: string): string[] {
  const network = carriedBy(db, id)
  const rows = network === undefined ? [] : queries(db).ofNetwork.all({ network: network.id })
  return rows.map(({ vni }) => networkRef(vni).id)
}

/** What an overlay carries: a private network, what belongs to none (`open`), or, for a reason, nothing. */
export type Joined = Carried | 'open' | { closed: string }

/** The network that it was made for; never another, whatever range that has: it may be another tenant's. */
export function joined(db: Db, { network }: Pick<NetworkRow, 'network'>): Joined {
  if (network === '') return 'open'
  return carried(db, network) ?? { closed: `network ${network} is gone` }
}

function networkEntries(db: Db, row: NetworkRow): [LinkEntry, Overlay] {
  const to = joined(db, row)
  const net = to === 'open' ? 0 : 'closed' in to ? NOBODYS_NET : to.net
  const { address, mtu } = certain(queries(db).local.get())
  const device = link(AREA, {
    name: deviceOf(row.vni),
    device: { type: 'vxlan', vni: row.vni, port: VXLAN_PORT, local: address },
    mtu: innerMtu({ address, mtu }),
    master: WORK_BRIDGE,
    // Two overlays have nothing to say to each other.
    isolated: true,
  })
  return [device, overlay(AREA, device.name, net)]
}

/** What fits into a frame of the tunnel; IPv6 takes 1280 bytes at least (RFC 8200 §5). */
export const innerMtu = ({ address, mtu }: Pick<LocalRow, 'address' | 'mtu'>): number =>
  Math.max(1280, mtu - OVERHEAD[address.includes(':') ? 6 : 4])

const forwards = (vni: number, mac: string, vtep: string) => forwarding(AREA, { link: deviceOf(vni), mac, vtep })

/** Frames for the MAC of a peer go to its VTEP; those of open ports, which no program knows the way of, by this overlay. */
function towards(db: Db, { vni, mac, vtep }: Pick<PeerRow, 'vni' | 'mac' | 'vtep'>): (Entry | Peer)[] {
  const isOpen = queries(db)
    .network.all({ vni })
    .some((row) => joined(db, row) === 'open')
  return [forwards(vni, mac, vtep), ...(isOpen ? [peer(AREA, deviceOf(vni), mac)] : [])]
}

function vtepEntries(vtep: string): SetElement[] {
  const prefix = certain(parsePrefix(vtep))
  return [element(prefix), opening('udp', VXLAN_PORT, prefix)]
}

function element({ family, text }: Prefix): SetElement {
  const set = vteps(family)
  return { kind: 'element', key: `${AREA}/${set}/${text}`, set, element: text }
}

/** Without overlays the port is not ours to judge. */
function inputEntries(db: Db): Entry[] {
  if (queries(db).anyNetwork.get() === undefined) return []
  const chain: Chain = {
    kind: 'chain',
    key: `${AREA}/${INPUT}`,
    chain: INPUT,
    rules: [
      `udp dport ${VXLAN_PORT} ${NOT_OUTSIDE} drop`,
      `udp dport ${VXLAN_PORT} ip saddr != @${vteps(4)} drop`,
      `udp dport ${VXLAN_PORT} ip6 saddr != @${vteps(6)} drop`,
    ],
  }
  return [chain]
}

function certain<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError('a stored value cannot be read: the row was changed behind the agent')
  return value
}
