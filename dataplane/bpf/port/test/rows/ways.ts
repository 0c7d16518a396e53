/** Where a frame whose sender is proven goes: past the bridge or to it. */
import { BROADCAST, ethernet, ipv4, PROTOCOL, TYPE, tcp, udp } from '../packet.ts'
import { IP, MAC, NET, PORT } from '../world.ts'
import { datagram, drop, fromA1, pass, type Row, redirect, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const toA2 = (fromIp: string) => datagram(MAC.a1, MAC.a2, fromIp, IP.a2)

export const WAYS: readonly Row[] = [
  row('broadcast is left to the bridge', 'a1', datagram(MAC.a1, BROADCAST, IP.a1, '10.0.0.255'), pass(NET.a)),
  row(
    'multicast is left to the bridge',
    'c1',
    datagram(MAC.c1, '01:00:5e:00:00:fb', IP.c1, '224.0.0.251'),
    pass(NET.c),
  ),
  row(
    'unknown unicast is left to the bridge',
    'a1',
    datagram(MAC.a1, '02:00:00:00:12:34', IP.a1, '10.0.0.77'),
    pass(NET.a),
  ),
  row(
    'a bound MAC that was never seen is left to the bridge',
    'a1',
    datagram(MAC.a1, MAC.a3, IP.a1, IP.a3),
    pass(NET.a),
  ),
  row("another net's MAC is unknown in this one", 'a1', datagram(MAC.a1, MAC.c1, IP.a1, IP.c1), pass(NET.a)),
  row(
    'a MAC behind an uplink goes straight there',
    'a1',
    datagram(MAC.a1, MAC.far, IP.a1, '10.0.0.200'),
    redirect('uplink', NET.a),
  ),
  row(
    'the same far MAC is not known in another net',
    'b1',
    datagram(MAC.b1, MAC.far, IP.a1, '10.0.0.200'),
    pass(NET.b),
  ),
  row('to a MAC on the port that it comes from', 'a1', datagram(MAC.a1, MAC.a1, IP.a1, IP.a1), drop('hairpin')),
  row('the port of the destination is gone', 'a1', toA2(IP.a1), pass(NET.a), {
    given: (world) => world.ports.delete(PORT.a2),
  }),
  row("the port of the destination is another net's by now", 'a1', toA2(IP.a1), pass(NET.a), {
    given: (world) => world.ports.set(PORT.a2, NET.b),
  }),
  row('the uplink of the destination is gone', 'a1', datagram(MAC.a1, MAC.far, IP.a1, '10.0.0.200'), pass(NET.a), {
    given: (world) => world.ports.delete(PORT.uplink),
  }),
  row(
    'as long as the MTU of the port allows',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2, Buffer.alloc(1472)))),
    redirect('a2', NET.a),
  ),
  row(
    'longer than the MTU of the port',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2, Buffer.alloc(1473)))),
    drop('too_long'),
  ),
  row(
    'a tag in the frame does not count for the MTU',
    'a1',
    ethernet(MAC.a2, MAC.a1, TYPE.ipv4, ipv4(IP.a1, IP.a2, 17, udp(1, 2, Buffer.alloc(1472))), [{ vid: 8 }]),
    redirect('a2', NET.a),
  ),
  row(
    'longer than the MTU and still to be cut',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, PROTOCOL.tcp, tcp(Buffer.alloc(3000)))),
    redirect('a2', NET.a),
    { gsoSize: 1448 },
  ),
  row(
    'another EtherType of a bound MAC stays inside',
    'a1',
    ethernet(BROADCAST, MAC.a1, 0x88b5, Buffer.alloc(46)),
    pass(NET.a),
  ),
  row(
    '802.3 with LLC of a bound MAC stays inside',
    'b1',
    ethernet(BROADCAST, MAC.b1, 46, Buffer.from('424203'.padEnd(92, '0'), 'hex')),
    pass(NET.b),
  ),
  row(
    'another EtherType of an unbound MAC',
    'a1',
    ethernet(BROADCAST, MAC.nobody, 0x88b5, Buffer.alloc(46)),
    drop('unbound'),
  ),
  row(
    'a frame of one byte behind its header',
    'a1',
    ethernet(MAC.a2, MAC.a1, 0x88b5, Buffer.alloc(1)),
    redirect('a2', NET.a),
  ),
]
