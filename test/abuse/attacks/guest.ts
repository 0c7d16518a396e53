/**
 * What a guest sends on its port. `bound` rows come from a guest of a network, `unbound` rows from a guest that is attached
 * to nothing. `nobody`: no other guest and not the node may see the frame. `same network`: its neighbour must, nobody else.
 */
import {
  ALL_HOSTS,
  ALL_NODES,
  arp,
  bytesOf,
  ethernet,
  icmpv6,
  ipv4,
  ipv6,
  linkLocal,
  snap,
  TYPE,
  udp,
} from './packets.ts'
import type { Addresses, Frames } from './table.ts'

const DATA = Buffer.from('whatever it is that somebody wants to say')
const UDP = 17
const [MORE_FRAGMENTS, OFFSET_1] = [0x2000, 1]
const LOOSE_ROUTE = Buffer.from([131, 7, 4, 192, 0, 2, 1, 0])
/** RFC 4861 §4.2 and §4.5; RFC 2464 §6: an option of 8 bytes that names a link-layer address. */
const ADVERTISEMENT = Buffer.from([64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0])
const TARGET_OPTION = (mac: string) => Buffer.concat([Buffer.from([2, 1]), Buffer.from(mac.replaceAll(':', ''), 'hex')])
/** BOOTREPLY with its cookie (RFC 2131), as far as a client looks at a frame before it decodes it. */
const OFFER = Buffer.concat([
  Buffer.from([2, 1, 6, 0]),
  Buffer.alloc(232),
  Buffer.from([99, 130, 83, 99, 53, 1, 2, 255]),
])
const ADVERTISE = Buffer.from([2, 1, 2, 3])

const own = ({ mac, ip, neighbour }: Addresses) => ({ mac, from: ip, to: neighbour.ip, at: neighbour.mac })
const plain = (it: Addresses, more: Partial<Parameters<typeof ipv4>[0]> = {}, payload = udp(1000, 2000, DATA)) => {
  const { from, to } = own(it)
  return ipv4({ from, to, protocol: UDP, ...more }, payload)
}
const toNeighbour = (it: Addresses, payload: Buffer, words: readonly number[] = [TYPE.ipv4], from = it.mac) =>
  ethernet(it.neighbour.mac, from, words, payload)
const nd = (it: Addresses, type: number, body: Buffer, from = linkLocal(it.mac)) =>
  ethernet(ALL_NODES.mac, it.mac, [TYPE.ipv6], ipv6(from, ALL_NODES.ip, 58, icmpv6(from, ALL_NODES.ip, type, body)))
const naFor = (it: Addresses, target: string) =>
  nd(it, 136, Buffer.concat([Buffer.from([0x20, 0, 0, 0]), bytesOf(target), TARGET_OPTION(it.mac)]))
const dhcp = (it: Addresses, port: number, more: Partial<Parameters<typeof ipv4>[0]> = {}) =>
  ethernet(ALL_HOSTS, it.mac, [TYPE.ipv4], plain(it, { to: '255.255.255.255', ...more }, udp(port, 68, OFFER)))
const dhcp6 = (it: Addresses, port: number) => {
  const [from, to] = [linkLocal(it.mac), linkLocal(it.neighbour.mac)]
  return ethernet(it.neighbour.mac, it.mac, [TYPE.ipv6], ipv6(from, to, UDP, udp(port, 546, ADVERTISE)))
}
const extended = (it: Addresses, next: number, header: Buffer, payload: Buffer) =>
  ethernet(
    ALL_NODES.mac,
    it.mac,
    [TYPE.ipv6],
    ipv6(linkLocal(it.mac), ALL_NODES.ip, next, Buffer.concat([header, payload])),
  )
const advertisement = (it: Addresses) => icmpv6(linkLocal(it.mac), ALL_NODES.ip, 134, ADVERTISEMENT)
const one = (what: string, make: (it: Addresses) => Buffer, expected: Frames['expected'] = 'nobody'): Frames => ({
  what,
  frames: (it) => [make(it)],
  expected,
})

const SPOOFED: readonly Frames[] = [
  one('its own packet', (it) => toNeighbour(it, plain(it)), 'same network'),
  one("the neighbour's MAC", (it) => ethernet(ALL_HOSTS, it.neighbour.mac, [TYPE.ipv4], plain(it))),
  one('a MAC that nobody has', (it) => toNeighbour(it, plain(it), [TYPE.ipv4], '02:00:00:00:00:99')),
  one('the MAC of the node', (it) => toNeighbour(it, plain(it), [TYPE.ipv4], it.node.mac)),
  one('a MAC of another network', (it) => toNeighbour(it, plain(it), [TYPE.ipv4], it.stranger.mac)),
  one('a multicast MAC as source', (it) => toNeighbour(it, plain(it), [TYPE.ipv4], '01:00:5e:00:00:01')),
  one('the MAC of zeros', (it) => toNeighbour(it, plain(it), [TYPE.ipv4], '00:00:00:00:00:00')),
  one("the neighbour's address", (it) => toNeighbour(it, plain(it, { from: it.neighbour.ip }))),
  one("the gateway's address", (it) => toNeighbour(it, plain(it, { from: it.node.gateway }))),
  one('an address of another network', (it) => toNeighbour(it, plain(it, { from: it.stranger.ip }))),
  one('an address of the world', (it) => toNeighbour(it, plain(it, { from: '198.51.100.9' }))),
  one('the address 0.0.0.0', (it) => toNeighbour(it, plain(it, { from: '0.0.0.0' }))),
  one('another network by its MAC', (it) =>
    ethernet(it.stranger.mac, it.mac, [TYPE.ipv4], plain(it, { to: it.stranger.ip })),
  ),
]

const ARP: readonly Frames[] = [
  one(
    'its own ARP request',
    (it) => ethernet(ALL_HOSTS, it.mac, [TYPE.arp], arp(1, it.mac, it.ip, it.neighbour.ip)),
    'same network',
  ),
  one('ARP as the gateway', (it) =>
    ethernet(ALL_HOSTS, it.mac, [TYPE.arp], arp(2, it.mac, it.node.gateway, it.neighbour.ip)),
  ),
  one('ARP as the neighbour', (it) => ethernet(ALL_HOSTS, it.mac, [TYPE.arp], arp(2, it.mac, it.neighbour.ip, it.ip))),
  one("ARP with the neighbour's MAC inside", (it) =>
    ethernet(ALL_HOSTS, it.mac, [TYPE.arp], arp(2, it.neighbour.mac, it.ip, it.ip)),
  ),
  one('RARP as the neighbour', (it) =>
    ethernet(ALL_HOSTS, it.mac, [TYPE.rarp], arp(2, it.mac, it.neighbour.ip, it.ip)),
  ),
  one('ARP cut short', (it) => ethernet(ALL_HOSTS, it.mac, [TYPE.arp], Buffer.from([0, 1, 8, 0, 7, 4, 0, 1]))),
]

const HIDDEN: readonly Frames[] = [
  one('behind a tag of its own', (it) => toNeighbour(it, plain(it), [TYPE.vlan, 77, TYPE.ipv4]), 'same network'),
  one(
    'behind two tags of its own',
    (it) => toNeighbour(it, plain(it), [0x88a8, 7, TYPE.vlan, 77, TYPE.ipv4]),
    'same network',
  ),
  one('behind three tags', (it) => toNeighbour(it, plain(it), [TYPE.vlan, 1, TYPE.vlan, 2, TYPE.vlan, 3, TYPE.ipv4])),
  one("the neighbour's address behind the tag of no VLAN", (it) =>
    toNeighbour(it, plain(it, { from: it.neighbour.ip }), [TYPE.vlan, 0, TYPE.ipv4]),
  ),
  one("the gateway's address in LLC/SNAP", (it) =>
    snap(it.neighbour.mac, it.mac, 0, TYPE.ipv4, plain(it, { from: it.node.gateway })),
  ),
  one("the gateway's address in LLC/SNAP of 802.1H", (it) =>
    snap(it.neighbour.mac, it.mac, 0xf8, TYPE.ipv4, plain(it, { from: it.node.gateway })),
  ),
  one('ARP as the gateway in LLC/SNAP', (it) =>
    snap(ALL_HOSTS, it.mac, 0, TYPE.arp, arp(2, it.mac, it.node.gateway, it.ip)),
  ),
  one('a router advertisement in LLC/SNAP', (it) =>
    snap(ALL_NODES.mac, it.mac, 0, TYPE.ipv6, ipv6(linkLocal(it.mac), ALL_NODES.ip, 58, advertisement(it))),
  ),
  one("the gateway's address in LLC/SNAP behind a tag of no VLAN", (it) =>
    snap(it.neighbour.mac, it.mac, 0, TYPE.ipv4, plain(it, { from: it.node.gateway }), [TYPE.vlan, 0]),
  ),
  one('a later fragment with the address of another', (it) =>
    toNeighbour(it, plain(it, { from: it.neighbour.ip, fragment: OFFSET_1 }, DATA)),
  ),
  one('a first fragment with the address of another', (it) =>
    toNeighbour(it, plain(it, { from: it.neighbour.ip, fragment: MORE_FRAGMENTS })),
  ),
  one('source routing with the address of another', (it) =>
    toNeighbour(it, plain(it, { from: it.node.gateway, options: LOOSE_ROUTE })),
  ),
]

const SERVERS: readonly Frames[] = [
  one('a DHCP answer from port 67', (it) => dhcp(it, 67)),
  one('a DHCP answer from port 1067', (it) => dhcp(it, 1067)),
  one('a DHCP answer with IP options', (it) => dhcp(it, 1067, { options: Buffer.from([1, 1, 1, 0]) })),
  one('a DHCP answer as first fragment', (it) => dhcp(it, 67, { fragment: MORE_FRAGMENTS })),
  one('a DHCPv6 answer from port 547', (it) => dhcp6(it, 547)),
  one('a DHCPv6 answer from port 5470', (it) => dhcp6(it, 5470)),
  one('a router advertisement', (it) => nd(it, 134, ADVERTISEMENT)),
  one('a redirect', (it) => nd(it, 137, Buffer.alloc(36))),
  one('a router advertisement behind hop-by-hop options', (it) =>
    extended(it, 0, Buffer.from([58, 0, 1, 4, 0, 0, 0, 0]), advertisement(it)),
  ),
  one('a router advertisement behind destination options twice', (it) =>
    extended(it, 60, Buffer.from([60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4, 0, 0, 0, 0]), advertisement(it)),
  ),
  one('a router advertisement in an atomic fragment', (it) =>
    extended(it, 44, Buffer.from([58, 0, 0, 0, 0, 0, 0, 1]), advertisement(it)),
  ),
  one('a router advertisement behind an authentication header', (it) =>
    extended(it, 51, Buffer.from([58, 4, 0, 0, ...Array<number>(20).fill(0)]), advertisement(it)),
  ),
  one('a neighbour advertisement for its own address', (it) => naFor(it, linkLocal(it.mac)), 'same network'),
  one("a neighbour advertisement for the neighbour's address", (it) => naFor(it, linkLocal(it.neighbour.mac))),
  one('a neighbour advertisement for a global address', (it) => naFor(it, '2001:db8::1')),
  one("the neighbour's link-local address as source", (it) =>
    nd(it, 136, Buffer.concat([Buffer.alloc(4), bytesOf(linkLocal(it.mac))]), linkLocal(it.neighbour.mac)),
  ),
  one('a global source address', (it) =>
    ethernet(it.neighbour.mac, it.mac, [TYPE.ipv6], ipv6('2001:db8::1', '2001:db8::2', UDP, udp(1, 2, DATA))),
  ),
]

/** Groups that no bridge passes on (IEEE 802.1Q, table 8-1), and who speaks to them. */
const CONTROL: readonly Frames[] = (
  [
    ['a BPDU of spanning tree', '01:80:c2:00:00:00', 39],
    ['a pause frame', '01:80:c2:00:00:01', 0x8808],
    ['LACP', '01:80:c2:00:00:02', 0x8809],
    ['EAPOL', '01:80:c2:00:00:03', 0x888e],
    ['LLDP', '01:80:c2:00:00:0e', 0x88cc],
  ] as const
).map(([what, group, type]) => one(what, (it) => ethernet(group, it.mac, [type], DATA)))

export const bound: readonly Frames[] = [...SPOOFED, ...ARP, ...HIDDEN, ...SERVERS, ...CONTROL]

/** A guest whose port no network has claimed. `mac` and `ip` are then its own, of no network. */
export const unbound: readonly Frames[] = [
  one('a packet into a network', (it) => ethernet(it.neighbour.mac, it.mac, [TYPE.ipv4], plain(it))),
  one("a private network's address", (it) =>
    ethernet(ALL_HOSTS, it.mac, [TYPE.ipv4], plain(it, { from: it.neighbour.ip })),
  ),
  one('ARP as a gateway', (it) =>
    ethernet(ALL_HOSTS, it.mac, [TYPE.arp], arp(2, it.mac, it.node.gateway, it.neighbour.ip)),
  ),
  ...CONTROL,
]
