/** The node's own leg: what may reach it, and what becomes of what it sends or routes. */
import { arp, BROADCAST, ethernet, ipv4, type Tag, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET, PORT } from '../world.ts'
import { datagram, drop, pass, type Row, redirect, rowsAt, stamp } from './row.ts'

const up = rowsAt('host_in')
const down = rowsAt('host_out')
const WORLD = '203.0.113.1'

const asks = (mac: string, ip: string, target: string, type: number = TYPE.arp) =>
  ethernet(BROADCAST, mac, type, arp(1, { mac, ip }, { ip: target }))
const sends = (mac: string, ip: string, to: string, tags: readonly Tag[] = []) => datagram(mac, MAC.node, ip, to, tags)
const [a, b, c] = [{ mark: stamp(NET.a) }, { mark: stamp(NET.b) }, { mark: stamp(NET.c) }]
const routed = { mark: stamp(NET.routed, true) }
const outside = { mark: stamp(0, true) }
const reaches = { verdict: 'pass' as const }

export const HOST_IN: readonly Row[] = [
  up('ARP for the gateway of the net', 'bridge', asks(MAC.a1, IP.a1, IP.gatewayA), { ...reaches, mark: a.mark }, a),
  up('ARP for the gateway of a net without host gateway', 'bridge', asks(MAC.b1, IP.a1, IP.gatewayA), drop('host'), b),
  up("ARP for another net's gateway", 'bridge', asks(MAC.c1, IP.c1, IP.gatewayA), drop('host'), c),
  up('ARP for the gateway of its own', 'bridge', asks(MAC.c1, IP.c1, IP.gatewayC), reaches, c),
  up('ARP for a neighbour', 'bridge', asks(MAC.a1, IP.a1, IP.a2), drop('host'), a),
  up(
    'ARP answer to the gateway',
    'bridge',
    ethernet(MAC.node, MAC.a1, TYPE.arp, arp(2, { mac: MAC.a1, ip: IP.a1 }, { mac: MAC.node, ip: IP.gatewayA })),
    reaches,
    a,
  ),
  up('ARP probe for the gateway', 'bridge', asks(MAC.a1, '0.0.0.0', IP.gatewayA), reaches, a),
  up('RARP', 'bridge', asks(MAC.a1, '0.0.0.0', '0.0.0.0', TYPE.rarp), drop('host'), a),
  up('ARP of a routed NIC for the routed gateway', 'bridge', asks(MAC.r1, IP.r1, IP.routedGateway), reaches, routed),
  up("ARP of a routed NIC for a net's gateway", 'bridge', asks(MAC.r1, IP.r1, IP.gatewayA), drop('host'), routed),
  up(
    'ARP for the routed gateway in a net with routed addresses',
    'bridge',
    asks(MAC.a1, IP.routedA1, IP.routedGateway),
    reaches,
    a,
  ),
  up('ARP for the routed gateway in a net without', 'bridge', asks(MAC.c1, IP.c1, IP.routedGateway), drop('host'), c),
  up('IPv4 of a net with host gateway', 'bridge', sends(MAC.a1, IP.a1, WORLD), reaches, a),
  up('IPv4 of a net without host gateway', 'bridge', sends(MAC.b1, IP.a1, WORLD), drop('host'), b),
  up('IPv4 of a net that has no row', 'bridge', sends(MAC.b1, IP.a1, WORLD), drop('host'), { mark: stamp(77) }),
  up('IPv4 of a routed NIC', 'bridge', sends(MAC.r1, IP.r1, WORLD), reaches, routed),
  up('IPv4 of a routed NIC by another address', 'bridge', sends(MAC.r1, IP.r1, WORLD), drop('host'), {
    mark: stamp(NET.routed),
  }),
  up('a net with routed addresses only: by one', 'bridge', sends(MAC.a1, IP.routedA1, WORLD), reaches, {
    mark: stamp(NET.a, true),
    given: (world) => world.nets.set(NET.a, { gateway: '0.0.0.0', vlan: 0, flags: 2 }),
  }),
  up('a net with routed addresses only: by a private one', 'bridge', sends(MAC.a1, IP.a1, WORLD), drop('host'), {
    ...a,
    given: (world) => world.nets.set(NET.a, { gateway: '0.0.0.0', vlan: 0, flags: 2 }),
  }),
  up(
    'IPv6 of a net never reaches the node',
    'bridge',
    ethernet(MAC.node, MAC.a1, TYPE.ipv6, Buffer.alloc(60)),
    drop('host'),
    a,
  ),
  up('another EtherType of a net', 'bridge', ethernet(MAC.node, MAC.a1, 0x88b5, Buffer.alloc(46)), drop('host'), a),
  up('a tagged frame of a net', 'bridge', sends(MAC.a1, IP.a1, WORLD, [{ vid: 8 }]), drop('host'), a),
  up('a tagged frame of a net, tag beside it', 'bridge', sends(MAC.a1, IP.a1, WORLD), drop('host'), {
    ...a,
    beside: 0x8100_0008,
  }),
  up('a frame of a net that ends too early', 'bridge', sends(MAC.a1, IP.a1, WORLD).subarray(0, 30), drop('short'), a),
  up(
    'from off the node by an address of a net',
    'bridge',
    sends(MAC.far, IP.a1, WORLD),
    drop('private_address'),
    outside,
  ),
  up('the same in VLAN 0', 'bridge', sends(MAC.far, IP.a1, WORLD, [{ vid: 0 }]), drop('private_address'), outside),
  up('from off the node in a VLAN', 'bridge', sends(MAC.far, IP.a1, WORLD, [{ vid: 8 }]), reaches, outside),
  up(
    'ARP for an address of a net by such',
    'bridge',
    asks(MAC.far, IP.a1, IP.gatewayA),
    drop('private_address'),
    outside,
  ),
  up('from off the node by a routed address', 'bridge', sends(MAC.far, IP.r1, WORLD), drop('private_address'), outside),
  up('from off the node to an address of a net', 'bridge', sends(MAC.far, '192.0.2.9', IP.a1), reaches, outside),
  up('something that ends too early', 'bridge', sends(MAC.far, IP.o1, WORLD).subarray(0, 20), reaches, outside),
  up('from a port that is not guarded', 'bridge', sends(MAC.o1, IP.o1, WORLD), drop('unstamped')),
]

const replies = (to: string, mac: string, from: string = WORLD, tags: readonly Tag[] = []) =>
  datagram(MAC.node, mac, from, to, tags)
const nodeAsks = (target: string, from: string) =>
  ethernet(BROADCAST, MAC.node, TYPE.arp, arp(1, { mac: MAC.node, ip: from }, { ip: target }))
const offer = (from: string, to: string) => ethernet(BROADCAST, MAC.node, TYPE.ipv4, ipv4(from, to, 17, udp(67, 68)))

export const HOST_OUT: readonly Row[] = [
  down('to an address of a net straight to the port', 'bridge', replies(IP.a1, MAC.a1), redirect('a1', NET.a)),
  down('to an address of a net whose port is not known', 'bridge', replies(IP.a3, MAC.a3), pass(NET.a)),
  down('to a routed address of a NIC of a net', 'bridge', replies(IP.routedA1, MAC.a1), redirect('a1', NET.a)),
  down('to a routed NIC', 'bridge', replies(IP.r1, MAC.r1), pass(NET.routed)),
  down('to a MAC behind an uplink', 'bridge', replies('10.0.0.200', MAC.far), redirect('uplink', NET.a)),
  down('to an address of no net', 'bridge', replies(IP.o1, MAC.o1), pass(0)),
  down('ARP for an address of a net', 'bridge', nodeAsks(IP.a1, IP.gatewayA), pass(NET.a)),
  down('gratuitous ARP of a gateway', 'bridge', nodeAsks(IP.gatewayC, IP.gatewayC), pass(NET.c)),
  down('ARP for an open address', 'bridge', nodeAsks(IP.o1, '10.9.0.1'), pass(0)),
  down(
    'DHCP answer to everybody in the net of the gateway',
    'bridge',
    offer(IP.gatewayC, '255.255.255.255'),
    pass(NET.c),
  ),
  down('DHCP answer from an address of no net', 'bridge', offer('10.9.0.1', '255.255.255.255'), pass(0)),
  down(
    'multicast in the net of the gateway',
    'bridge',
    replies('224.0.0.251', '01:00:5e:00:00:fb', IP.gatewayA),
    pass(NET.a),
  ),
  down('broadcast of the range of the net', 'bridge', replies('10.3.0.255', BROADCAST, IP.gatewayC), pass(NET.c)),
  down('to an address of no net from that of a gateway', 'bridge', replies('192.0.2.1', MAC.o1, IP.gatewayA), pass(0)),
  down(
    'just below multicast, from that of a gateway',
    'bridge',
    replies('223.255.255.255', MAC.o1, IP.gatewayA),
    pass(0),
  ),
  down('IPv6', 'bridge', ethernet('33:33:00:00:00:01', MAC.node, TYPE.ipv6, Buffer.alloc(60)), pass(0)),
  down('RARP', 'bridge', ethernet(BROADCAST, MAC.node, TYPE.rarp, nodeAsks(IP.a1, IP.gatewayA).subarray(14)), pass(0)),
  down('another EtherType', 'bridge', ethernet(MAC.a1, MAC.node, 0x88b5, Buffer.alloc(46)), pass(0)),
  down('something that ends too early', 'bridge', replies(IP.a1, MAC.a1).subarray(0, 30), pass(0)),
  down('tagged, though to an address of a net', 'bridge', replies(IP.a1, MAC.a1, WORLD, [{ vid: 8 }]), pass(0)),
  down('vlan-03 tagged with a locked VLAN', 'bridge', replies(IP.o1, MAC.o1, WORLD, [{ vid: 7 }]), drop('vlan_locked')),
  down('tagged with the VLAN of a net', 'bridge', replies(IP.a1, MAC.a1, WORLD, [{ vid: 100 }]), drop('vlan_of_net')),
  down('tagged beside the frame with the VLAN of a net', 'bridge', replies(IP.a1, MAC.a1), drop('vlan_of_net'), {
    beside: 0x8100_0064,
  }),
  down('three tags', 'bridge', replies(IP.a1, MAC.a1, WORLD, [{ vid: 1 }, { vid: 2 }, { vid: 3 }]), drop('tags')),
  down('routed from one net to another', 'bridge', replies(IP.a1, MAC.a1, IP.c1), drop('host_routing'), c),
  down('routed back into the same net', 'bridge', replies(IP.a1, MAC.a1, IP.a2), redirect('a1', NET.a), a),
  down('routed from an open port to a net', 'bridge', replies(IP.a1, MAC.a1, IP.o1), redirect('a1', NET.a), {
    mark: stamp(0),
  }),
  down('routed from a net to an open port', 'bridge', replies(IP.o1, MAC.o1, IP.a1), pass(0), a),
  down(
    'routed from a routed address to another',
    'bridge',
    replies(IP.routedA1, MAC.a1, IP.r1),
    redirect('a1', NET.a),
    routed,
  ),
  down('routed from a routed address to a net', 'bridge', replies(IP.c1, MAC.c1, IP.r1), drop('host_routing'), routed),
  down('routed from a net to a routed address', 'bridge', replies(IP.r1, MAC.r1, IP.c1), drop('host_routing'), c),
  down('under a mark of somebody else', 'bridge', replies(IP.a1, MAC.a1), redirect('a1', NET.a), { mark: 0x1234 }),
  down('the port of the destination is gone', 'bridge', replies(IP.a1, MAC.a1), pass(NET.a), {
    given: (world) => world.ports.delete(PORT.a1),
  }),
  down(
    'longer than the MTU of the port',
    'bridge',
    ethernet(MAC.a1, MAC.node, TYPE.ipv4, ipv4(WORLD, IP.a1, 17, udp(1, 2, Buffer.alloc(1473)))),
    drop('too_long'),
  ),
]
