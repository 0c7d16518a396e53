/** What an open port gets at the node, and by which MACs it may speak. */
import { LOCK_SOFT } from '../../../../numbers.ts'
import { arp, BROADCAST, discovery, ethernet, extension, ipv4, ipv6, type Tag, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET, PORT, type World } from '../world.ts'
import { datagram, drop, fromOutside, pass, type Row, redirect, rowsAt, stamp } from './row.ts'

const up = rowsAt('host_in')
const open = { mark: stamp(0) }
const closed = { ...open, given: (world: World) => void Object.assign(world, { closed: true }) }
const outside = { mark: stamp(0, true) }
const [ICMP, UDP, DESTINATION, FRAGMENT] = [58, 17, 60, 44]
const WORLD = '203.0.113.1'

const to = (ip: string, tags: readonly Tag[] = []) => datagram(MAC.o1, MAC.node, IP.o1, ip, tags)
const asks = (ip: string) => ethernet(BROADCAST, MAC.o1, TYPE.arp, arp(1, { mac: MAC.o1, ip: IP.o1 }, { ip }))
const says = (next: number, packet: Uint8Array, tags: readonly Tag[] = []) =>
  ethernet('33:33:00:00:00:01', MAC.o1, TYPE.ipv6, ipv6('fe80::1', 'ff02::1', next, packet), tags)
const ra = discovery(134, undefined, Buffer.alloc(8))
const answer = ethernet(BROADCAST, MAC.o1, TYPE.ipv4, ipv4(IP.o1, '255.255.255.255', UDP, udp(1067, 68)))

export const OPEN_UP: readonly Row[] = [
  up('to the node and the world', 'bridge', to(WORLD), pass(0), open),
  up('ARP for an address of the node', 'bridge', asks('10.9.0.1'), pass(0), open),
  up('to a net with host gateway', 'bridge', to(IP.c1), drop('open_port'), open),
  up('the same in a VLAN', 'bridge', to(IP.c1, [{ vid: 0 }]), drop('open_port'), open),
  up('ARP for the gateway of a net', 'bridge', asks(IP.gatewayA), drop('open_port'), open),
  up('to a routed address', 'bridge', to(IP.r1), pass(0), open),
  up('by an address of a net', 'bridge', datagram(MAC.o1, MAC.node, IP.a1, WORLD), drop('private_address'), open),
  up('a router advertisement', 'bridge', says(ICMP, ra), drop('ipv6_router'), open),
  up('the same in a VLAN', 'bridge', says(ICMP, ra, [{ vid: 8 }]), drop('ipv6_router'), open),
  up('the same behind options', 'bridge', says(DESTINATION, extension(ICMP, ra, 2)), drop('ipv6_router'), open),
  up('the same in a fragment', 'bridge', says(FRAGMENT, extension(ICMP, ra)), drop('ipv6_hidden'), open),
  up('a redirect', 'bridge', says(ICMP, discovery(137, 'fe80::9', Buffer.alloc(16))), drop('ipv6_router'), open),
  up('an echo request of IPv6', 'bridge', says(ICMP, Buffer.from([128, 0, 0, 0])), pass(0), open),
  up('UDP of IPv6', 'bridge', says(UDP, udp(5, 53)), pass(0), open),
  up('a DHCPv6 answer', 'bridge', says(UDP, udp(5470, 546)), drop('ipv6_router'), open),
  up('a DHCP answer', 'bridge', answer, drop('dhcp_server'), open),
  up('IPv6 that ends within its options', 'bridge', says(DESTINATION, Buffer.alloc(1)), drop('short'), open),
  up('a router advertisement from off the node', 'bridge', says(ICMP, ra), { verdict: 'pass' }, outside),

  up('closed: to the node', 'bridge', to('10.9.0.1'), drop('open_port'), closed),
  up('closed: ARP', 'bridge', asks('10.9.0.1'), drop('open_port'), closed),
  up('closed: IPv6', 'bridge', says(UDP, udp(5, 53)), drop('open_port'), closed),
  up(
    'closed: anything else',
    'bridge',
    ethernet(MAC.node, MAC.o1, 0x88b5, Buffer.alloc(46)),
    drop('open_port'),
    closed,
  ),
  up('closed: from off the node', 'bridge', to('10.9.0.1'), { verdict: 'pass' }, { ...closed, ...outside }),
  up(
    'closed: from a net',
    'bridge',
    datagram(MAC.a1, MAC.node, IP.a1, WORLD),
    { verdict: 'pass' },
    {
      ...closed,
      mark: stamp(NET.a),
    },
  ),
]

const row = rowsAt('port_in')
const incoming = rowsAt('uplink_in')
const byRouter = datagram(MAC.router, MAC.o2, IP.o1, IP.o2)
const bound = (ifindex: number) => (world: World) => {
  world.locks.set(PORT.o1, LOCK_SOFT)
  world.macbinds.set(MAC.router, { ifindex, vlan: 0, lock: LOCK_SOFT })
}
const longAgo = ({ outside }: World) => void outside.set(MAC.router, { recent: false, times: 3 })

export const OUTSIDE: readonly Row[] = [
  row('a MAC that was heard behind an uplink', 'o1', byRouter, drop('outside_mac')),
  row('the same in a VLAN', 'o1', datagram(MAC.router, MAC.o2, IP.o1, IP.o2, [{ vid: 8 }]), drop('outside_mac')),
  row('a MAC that was heard there once or twice', 'o1', byRouter, pass(0), {
    given: ({ outside }) => void outside.set(MAC.router, { recent: true, times: 2 }),
  }),
  row('a MAC that was heard there long ago', 'o1', byRouter, pass(0), { given: longAgo }),
  row('a MAC that a binding names for the port', 'o1', byRouter, pass(0), { given: bound(PORT.o1) }),
  row('a MAC that a binding names for every port', 'o1', byRouter, drop('outside_mac'), { given: bound(0) }),
  row('a bound MAC', 'a1', datagram(MAC.a1, BROADCAST, IP.a1, IP.a2), pass(NET.a), {
    given: ({ outside }) => void outside.set(MAC.a1, { recent: true, times: 3 }),
  }),
  incoming('a MAC behind an uplink', 'uplink', datagram(MAC.nobody, MAC.o2, IP.o1, IP.o2), fromOutside),
  incoming('a MAC that was silent for long', 'uplink', byRouter, fromOutside, { given: longAgo }),
  incoming('a MAC behind an overlay of open ports', 'tunnel', datagram(MAC.nobody, MAC.o2, IP.o1, IP.o2), pass(0)),
  incoming("the router's MAC by an overlay", 'tunnel', byRouter, drop('outside_mac')),
]

const toPeer = datagram(MAC.o1, MAC.peer, IP.o1, IP.o2)

export const PEERS: readonly Row[] = [
  row('an open port to the MAC of a peer', 'o1', toPeer, redirect('tunnel', 0)),
  row('the same when several overlays have it', 'o1', toPeer, pass(0), {
    given: ({ peers }) => void peers.set(MAC.peer, 0),
  }),
  row('the same by an overlay that carries a net', 'o1', toPeer, pass(0), {
    given: ({ peers }) => void peers.set(MAC.peer, PORT.overlay),
  }),
  row('the same by what is no overlay', 'o1', toPeer, pass(0), {
    given: ({ peers }) => void peers.set(MAC.peer, PORT.uplink),
  }),
  row('a net to the MAC of a peer of open ports', 'b1', datagram(MAC.b1, MAC.peer, IP.a1, IP.a2), pass(NET.b)),
  incoming(
    'from off the node to the MAC of a peer',
    'uplink',
    datagram(MAC.nobody, MAC.peer, IP.o1, IP.o2),
    fromOutside,
  ),
]
