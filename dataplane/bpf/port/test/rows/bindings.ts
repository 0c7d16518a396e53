/** Who may send by which port and with which MAC; open ports. */
import { CLAIM_ANY, CLAIM_FIRST, CLAIM_NONE } from '../../numbers.ts'
import { arp, BROADCAST, ethernet, ipv4, NO_MAC, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET, PORT, SLOT, type World } from '../world.ts'
import { datagram, drop, pass, type Row, redirect, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const toA2 = (fromIp: string) => datagram(MAC.a1, MAC.a2, fromIp, IP.a2)
const discover = udp(68, 67, Buffer.alloc(60, 'd'))

const announced = datagram(MAC.c1, BROADCAST, IP.c1, '10.3.0.255')
const toC2 = datagram(MAC.c1, MAC.c2, IP.c1, IP.c2)
/** c1 may be claimed so. */
const claims =
  (how: number, more: (world: World) => unknown = () => {}) =>
  (world: World) => {
    Object.assign(endpointC1(world), { claims: how })
    more(world)
  }
const noHome = (world: World) => Object.assign(endpointC1(world), { home: 0 })
function endpointC1({ endpoints }: World) {
  const found = endpoints.get(`${NET.c}/${MAC.c1}`)
  if (found === undefined) throw new Error('c1 is not bound')
  return found
}

export const BINDINGS: readonly Row[] = [
  row('unicast between two MACs of a net goes straight to the port', 'a1', toA2(IP.a1), redirect('a2', NET.a)),
  row(
    'the same MACs and addresses in another net go to that net',
    'b1',
    datagram(MAC.b1, MAC.b2, IP.a1, IP.a2),
    redirect('b2', NET.b),
  ),
  row("net-27 a neighbour's address from one's own MAC", 'a1', toA2(IP.a2), drop('address')),
  row('net-27 an address outside every net', 'a1', toA2('192.0.2.9'), drop('address')),
  row('net-27 the address of the gateway', 'a1', toA2(IP.gatewayA), drop('address')),
  row('net-27 a foreign MAC with the right address', 'a1', datagram(MAC.nobody, MAC.a2, IP.a1, IP.a2), drop('unbound')),
  row(
    'net-27 a foreign MAC with a foreign address',
    'a1',
    datagram(MAC.nobody, MAC.a2, '192.0.2.9', IP.a2),
    drop('unbound'),
  ),
  row("a neighbour's MAC and address from one's own port", 'a1', datagram(MAC.a2, MAC.a1, IP.a2, IP.a1), drop('home')),
  row('a MAC of another net from a private port', 'a1', datagram(MAC.c1, MAC.c2, IP.c1, IP.c2), drop('unbound')),
  row('a MAC that no longer counts', 'a1', toA2(IP.a1), drop('stale'), {
    given: (world) => world.truth.delete(SLOT.a1),
  }),
  row('net-32 after the switch the old MAC of the endpoint', 'a1', toA2(IP.a1), drop('stale'), {
    given: (world) => world.truth.set(SLOT.a1, { mac: MAC.nobody, routed: false }),
  }),
  row(
    'net-32 after the switch the new MAC of the endpoint',
    'a1',
    datagram(MAC.nobody, MAC.a2, IP.a1, IP.a2),
    redirect('a2', NET.a),
    {
      given: (world) => {
        world.endpoints.set(`${NET.a}/${MAC.nobody}`, {
          address: IP.a1,
          claims: CLAIM_ANY,
          home: PORT.a1,
          slot: SLOT.a1,
        })
        world.truth.set(SLOT.a1, { mac: MAC.nobody, routed: false })
      },
    },
  ),
  row(
    'net-32 before the switch the new MAC of the endpoint',
    'a1',
    datagram(MAC.nobody, MAC.a2, IP.a1, IP.a2),
    drop('stale'),
    {
      given: (world) =>
        world.endpoints.set(`${NET.a}/${MAC.nobody}`, {
          address: IP.a1,
          claims: CLAIM_ANY,
          home: PORT.a1,
          slot: SLOT.a1,
        }),
    },
  ),
  row('a detached MAC whose rows are gone', 'a1', toA2(IP.a1), drop('unbound'), {
    given: (world) => world.endpoints.delete(`${NET.a}/${MAC.a1}`),
  }),
  row('source MAC multicast', 'a1', datagram('03:00:00:00:00:01', MAC.a2, IP.a1, IP.a2), drop('source_mac')),
  row('source MAC broadcast', 'o1', datagram(BROADCAST, MAC.o2, IP.o1, IP.o2), drop('source_mac')),
  row('source MAC zero', 'a1', datagram(NO_MAC, MAC.a2, IP.a1, IP.a2), drop('source_mac')),
  row(
    'spanning tree from an open port',
    'o1',
    ethernet('01:80:c2:00:00:00', MAC.o1, 38, Buffer.alloc(38)),
    drop('reserved'),
  ),
  row('pause frame', 'a1', ethernet('01:80:c2:00:00:01', MAC.a1, 0x8808, Buffer.alloc(46)), drop('reserved')),
  row('LLDP', 'a1', ethernet('01:80:c2:00:00:0e', MAC.a1, 0x88cc, Buffer.alloc(46)), drop('reserved')),
  row(
    'just above the reserved groups',
    'a1',
    ethernet('01:80:c2:00:00:10', MAC.a1, 0x88b5, Buffer.alloc(46)),
    pass(NET.a),
  ),
  row('a frame by a port that is not guarded', 'stranger', toA2(IP.a1), drop('no_port')),
  row('the first bound MAC claims an open port', 'c2', datagram(MAC.c2, MAC.c1, IP.c2, IP.c1), redirect('c1', NET.c)),
  row('a MAC that another port has in its net', 'o1', datagram(MAC.c1, MAC.c2, IP.c1, IP.c2), drop('home')),
  row(
    'a MAC whose port is gone moves to the next',
    'c2',
    datagram(MAC.c1, BROADCAST, IP.c1, '10.3.0.255'),
    pass(NET.c),
    {
      given: (world) => world.ports.delete(PORT.c1),
    },
  ),
  row(
    'a MAC whose port went to another net stays there while the port does',
    'c2',
    datagram(MAC.c1, BROADCAST, IP.c1, '10.3.0.255'),
    drop('home'),
    {
      given: (world) => world.ports.set(PORT.c1, NET.b),
    },
  ),
  row('a MAC whose port is open again stays there while the port does', 'c2', announced, drop('home'), {
    given: (world) => world.ports.set(PORT.c1, 0),
  }),
  row('a MAC that nobody claims, at its port', 'c1', toC2, pass(NET.c), { given: claims(CLAIM_NONE) }),
  row('a MAC that nobody claims, at another port', 'c2', announced, drop('other_port'), { given: claims(CLAIM_NONE) }),
  row('a MAC that nobody claims, whose port is gone', 'c2', announced, drop('other_port'), {
    given: claims(CLAIM_NONE, (world) => world.ports.delete(PORT.c1)),
  }),
  row('a MAC that nobody claims and that is nowhere', 'c2', announced, drop('other_port'), {
    given: claims(CLAIM_NONE, (world) => noHome(world)),
  }),
  row('a MAC that keeps its first port, at that port', 'c1', toC2, pass(NET.c), { given: claims(CLAIM_FIRST) }),
  row('a MAC that keeps its first port, whose port is gone', 'c2', announced, drop('other_port'), {
    given: claims(CLAIM_FIRST, (world) => world.ports.delete(PORT.c1)),
  }),
  row('a MAC that keeps its first port and has none yet', 'c2', announced, pass(NET.c), {
    given: claims(CLAIM_FIRST, (world) => noHome(world)),
  }),
  row('a second MAC of the net on a claimed port', 'c1', datagram(MAC.c2, BROADCAST, IP.c2, '10.3.0.255'), pass(NET.c)),
  row('a MAC of several nets on an open port', 'o1', datagram(MAC.a1, MAC.a2, IP.a1, IP.a2), drop('ambiguous')),
  row('spoofing on an open port claims nothing', 'c2', datagram(MAC.c2, MAC.c1, IP.c1, IP.c1), drop('address')),
  row('open port, source outside every net', 'o1', datagram(MAC.o1, MAC.o2, IP.o1, IP.o2), pass(0)),
  row('open port, source inside a net', 'o1', datagram(MAC.o1, BROADCAST, '10.3.0.77', IP.c1), drop('private_address')),
  row("open port, somebody's routed address", 'o1', datagram(MAC.o1, BROADCAST, IP.r1, IP.o2), drop('private_address')),
  row('open port, next to a routed address', 'o1', datagram(MAC.o1, BROADCAST, '198.18.5.6', IP.o2), pass(0)),
  row(
    'open port, DHCP',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.ipv4, ipv4('0.0.0.0', '255.255.255.255', 17, discover)),
    pass(0),
  ),
  row(
    'open port, ARP for a private sender',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.arp, arp(1, { mac: MAC.o1, ip: IP.gatewayA }, { ip: IP.a2 })),
    drop('private_address'),
  ),
  row(
    'open port, ARP of its own',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.arp, arp(1, { mac: MAC.o1, ip: IP.o1 }, { ip: IP.o2 })),
    pass(0),
  ),
  row(
    'open port, ARP probe',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.arp, arp(1, { mac: MAC.o1, ip: '0.0.0.0' }, { ip: IP.a2 })),
    pass(0),
  ),
  row(
    'open port, RARP for a private sender',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.rarp, arp(3, { mac: MAC.o1, ip: IP.c1 }, { ip: IP.c1 })),
    drop('private_address'),
  ),
  row('open port, IPv6 is its own affair', 'o1', ethernet(MAC.o2, MAC.o1, TYPE.ipv6, Buffer.alloc(60)), pass(0)),
  row(
    'open port, to a bound MAC: left to the bridge, which egress ends',
    'o1',
    datagram(MAC.o1, MAC.c1, IP.o1, IP.c1),
    pass(0),
  ),
  row('the routed address of a MAC beside its first', 'a1', toA2(IP.routedA1), redirect('a2', NET.a, true)),
  row("a neighbour's routed address", 'a2', datagram(MAC.a2, MAC.a1, IP.routedA1, IP.a1), drop('address')),
  row('the second address of a MAC that is not routed', 'a1', toA2('10.0.0.66'), redirect('a2', NET.a), {
    given: (world) => world.addresses.set(`${NET.a}/10.0.0.66`, { slot: SLOT.a1, routed: false }),
  }),
  row(
    'a NIC with routed addresses only',
    'r1',
    datagram(MAC.r1, MAC.node, IP.r1, '203.0.113.1'),
    pass(NET.routed, true),
  ),
  row('a routed NIC with an address of a net', 'r1', datagram(MAC.r1, MAC.node, IP.a1, '203.0.113.1'), drop('address')),
  row('a routed NIC to the MAC of a net', 'r1', datagram(MAC.r1, MAC.a2, IP.r1, IP.a2), pass(NET.routed, true)),
  row("a routed NIC's MAC in a net", 'a1', datagram(MAC.r1, MAC.a2, IP.r1, IP.a2), drop('unbound')),
]
