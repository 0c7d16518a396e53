/** What a bound MAC may say by IPv4, ARP and RARP. */
import { arp, BROADCAST, ethernet, ipv4, PROTOCOL, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET } from '../world.ts'
import { asking, drop, fromA1, pass, type Row, redirect, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const discover = udp(68, 67, asking(MAC.a1))
const EVERYBODY = '255.255.255.255'
const arpA1 = (sender: { mac?: string; ip?: string }, more: { op?: number; target?: string; type?: number } = {}) =>
  ethernet(
    BROADCAST,
    MAC.a1,
    more.type ?? TYPE.arp,
    arp(more.op ?? 1, { mac: MAC.a1, ip: IP.a1, ...sender }, { ip: more.target ?? IP.a2 }),
  )

export const IPV4_AND_ARP: readonly Row[] = [
  row('DHCP of a bound MAC', 'a1', fromA1(ipv4('0.0.0.0', EVERYBODY, 17, discover), BROADCAST), pass(NET.a)),
  row(
    '0.0.0.0 from another UDP port',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, udp(1000, 67)), BROADCAST),
    drop('zero_address'),
  ),
  row(
    '0.0.0.0 to another UDP port',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, udp(68, 69)), BROADCAST),
    drop('zero_address'),
  ),
  row('0.0.0.0 by ICMP', 'a1', fromA1(ipv4('0.0.0.0', IP.a2, PROTOCOL.icmp, Buffer.alloc(24))), drop('zero_address')),
  row(
    '0.0.0.0 by TCP between the ports of DHCP',
    'a1',
    fromA1(ipv4('0.0.0.0', IP.a2, PROTOCOL.tcp, discover)),
    drop('zero_address'),
  ),
  row(
    '0.0.0.0, the ports of DHCP behind options',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, discover, { options: Buffer.alloc(4, 1) }), BROADCAST),
    pass(NET.a),
  ),
  row(
    '0.0.0.0, other ports behind options that look like DHCP',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, udp(9, 9), { options: Buffer.from([0, 68, 0, 67]) }), BROADCAST),
    drop('zero_address'),
  ),
  row(
    '0.0.0.0, a later fragment that looks like DHCP',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, discover, { fragment: 5 }), BROADCAST),
    drop('zero_address'),
  ),
  row(
    '0.0.0.0, a first fragment of DHCP',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, discover, { fragment: 0x2000 }), BROADCAST),
    drop('dhcp_client'),
  ),
  row(
    '0.0.0.0, frame ends before the ports',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, Buffer.alloc(3)), BROADCAST),
    drop('zero_address'),
  ),
  row('header length 4', 'a1', fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2), { words: 4 })), drop('malformed')),
  row(
    'header length 15 behind which nothing is',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, Buffer.alloc(0), { words: 15 })),
    redirect('a2', NET.a),
  ),
  row(
    'version 6 under the EtherType of IPv4',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2), { version: 6 })),
    drop('malformed'),
  ),
  row(
    'malformed IPv4 on an open port',
    'o1',
    ethernet(MAC.o2, MAC.o1, TYPE.ipv4, ipv4(IP.o1, IP.o2, 17, udp(1, 2), { words: 3 })),
    drop('malformed'),
  ),
  row('a header that ends too early', 'a1', fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2)).subarray(0, 19)), drop('short')),
  row(
    'a later fragment with the right source',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, Buffer.alloc(24), { fragment: 5 })),
    redirect('a2', NET.a),
  ),
  row(
    'a later fragment with a wrong source',
    'a1',
    fromA1(ipv4('10.0.0.7', IP.a2, 17, Buffer.alloc(24), { fragment: 5 })),
    drop('address'),
  ),
  row('ARP request', 'a1', arpA1({}), pass(NET.a)),
  row(
    'ARP reply straight to the one who asked',
    'a1',
    ethernet(MAC.a2, MAC.a1, TYPE.arp, arp(2, { mac: MAC.a1, ip: IP.a1 }, { mac: MAC.a2, ip: IP.a2 })),
    redirect('a2', NET.a),
  ),
  row('ARP probe', 'a1', arpA1({ ip: '0.0.0.0' }, { target: IP.a1 }), pass(NET.a)),
  row('gratuitous ARP', 'a1', arpA1({}, { op: 2, target: IP.a1 }), pass(NET.a)),
  row('ARP that speaks for the gateway', 'a1', arpA1({ ip: IP.gatewayA }, { op: 2 }), drop('arp')),
  row('ARP that speaks for a neighbour', 'a1', arpA1({ ip: IP.a2 }, { op: 2 }), drop('arp')),
  row('ARP with another MAC in its message', 'a1', arpA1({ mac: MAC.nobody }), drop('arp')),
  row("ARP probe with a neighbour's MAC in its message", 'a1', arpA1({ mac: MAC.a2, ip: '0.0.0.0' }), drop('arp')),
  row(
    'ARP for the routed address of the MAC',
    'a1',
    arpA1({ ip: IP.routedA1 }, { target: IP.routedGateway }),
    pass(NET.a, true),
  ),
  row(
    'ARP with hardware addresses of 8 bytes',
    'a1',
    ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip: IP.a1 }, { ip: IP.a2 }, { sizes: 0x0804 })),
    drop('malformed'),
  ),
  row(
    'ARP of another hardware',
    'a1',
    ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip: IP.a1 }, { ip: IP.a2 }, { hardware: 6 })),
    drop('malformed'),
  ),
  row(
    'ARP of another protocol',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.arp, arp(1, { mac: MAC.o1, ip: IP.o1 }, { ip: IP.o2 }, { protocol: 0x86dd })),
    drop('malformed'),
  ),
  row('ARP that ends too early', 'a1', arpA1({}).subarray(0, 41), drop('short')),
  row(
    'RARP announcement of a hypervisor',
    'a1',
    arpA1({ ip: '0.0.0.0' }, { op: 3, type: TYPE.rarp, target: '0.0.0.0' }),
    pass(NET.a),
  ),
  row('RARP that speaks for somebody else', 'a1', arpA1({ ip: IP.a2 }, { op: 4, type: TYPE.rarp }), drop('arp')),
  row(
    'RARP with another MAC in its message',
    'a1',
    arpA1({ mac: MAC.a2, ip: '0.0.0.0' }, { op: 3, type: TYPE.rarp }),
    drop('arp'),
  ),
]
