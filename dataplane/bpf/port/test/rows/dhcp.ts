/** DHCP of workloads: in a net that the node serves, a, and in one that it does not, c. */
import { BROADCAST, ethernet, ipv4, PROTOCOL, type Tag, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET } from '../world.ts'
import { asking, drop, fromA1, pass, type Row, redirect, rowsAt } from './row.ts'

const EVERYBODY = '255.255.255.255'
const row = rowsAt('port_in')
const options = Buffer.alloc(8, 1)
const MORE = 0x2000

const says = (datagram: Buffer, asked: Parameters<typeof ipv4>[4] = {}) =>
  fromA1(ipv4(IP.a1, EVERYBODY, PROTOCOL.udp, datagram, asked), BROADCAST)
const tagged = (datagram: Buffer, ...tags: Tag[]) =>
  ethernet(BROADCAST, MAC.a1, TYPE.ipv4, ipv4(IP.a1, EVERYBODY, PROTOCOL.udp, datagram), tags)
const ofC1 = (datagram: Buffer, asked: Parameters<typeof ipv4>[4] = {}) =>
  ethernet(BROADCAST, MAC.c1, TYPE.ipv4, ipv4(IP.c1, EVERYBODY, PROTOCOL.udp, datagram, asked))
/** A part of a datagram that looks like a whole one. */
const dressed = (to: number, length = 26) => {
  const bytes = udp(67, to)
  bytes.writeUInt16BE(length, 4)
  return bytes
}

export const DHCP: readonly Row[] = [
  row('an answer from port 67', 'a1', says(udp(67, 68)), drop('dhcp_server')),
  row('an answer from another port', 'a1', says(udp(1067, 68)), drop('dhcp_server')),
  row('an answer from the port of clients', 'a1', says(udp(68, 68)), drop('dhcp_server')),
  row('an answer to one client', 'a1', fromA1(ipv4(IP.a1, IP.a2, 17, udp(1067, 68))), drop('dhcp_server')),
  row('an answer behind IP options', 'a1', says(udp(1067, 68), { options }), drop('dhcp_server')),
  row('an answer whose first fragment comes first', 'a1', says(udp(1067, 68), { fragment: MORE }), drop('dhcp_server')),
  row('an answer behind a tag', 'a1', tagged(udp(1067, 68), { vid: 0 }), drop('dhcp_server')),
  row('an answer behind two tags', 'a1', tagged(udp(1067, 68), { vid: 0 }, { vid: 9 }), drop('dhcp_server')),
  row('an answer without source address', 'a1', fromA1(ipv4('0.0.0.0', IP.a2, 17, udp(67, 68))), drop('dhcp_server')),
  row('a later fragment dressed as an answer', 'a1', says(dressed(68), { fragment: 5 }), drop('dhcp_server')),
  row(
    'the same behind IP options',
    'a1',
    says(dressed(68), { fragment: 5, options: Buffer.alloc(4, 1) }),
    drop('dhcp_server'),
  ),
  row(
    'a later fragment that holds the number by chance',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, dressed(68, 27), { fragment: 5 })),
    redirect('a2', NET.a),
  ),
  row(
    'a later fragment of anything else',
    'a1',
    fromA1(ipv4(IP.a1, IP.a2, 17, dressed(69), { fragment: 5 })),
    redirect('a2', NET.a),
  ),
  row('TCP to the port of clients', 'a1', fromA1(ipv4(IP.a1, IP.a2, 6, udp(67, 68))), redirect('a2', NET.a)),
  row('an answer in a net that the node does not serve', 'c1', ofC1(udp(67, 68)), pass(NET.c)),
  row(
    'an answer between open ports',
    'o1',
    ethernet(BROADCAST, MAC.o1, TYPE.ipv4, ipv4(IP.o1, EVERYBODY, 17, udp(67, 68))),
    pass(0),
  ),

  row('a request by its own MAC', 'a1', says(udp(68, 67, asking(MAC.a1))), pass(NET.a)),
  row("a request by a neighbour's MAC", 'a1', says(udp(68, 67, asking(MAC.a2))), drop('dhcp_client')),
  row('the same from another port', 'a1', says(udp(1068, 67, asking(MAC.a2))), drop('dhcp_client')),
  row('the same behind IP options', 'a1', says(udp(68, 67, asking(MAC.a2)), { options }), drop('dhcp_client')),
  row('the same behind a tag', 'a1', tagged(udp(68, 67, asking(MAC.a2)), { vid: 0 }), drop('dhcp_client')),
  row(
    'the same without source address',
    'a1',
    fromA1(ipv4('0.0.0.0', EVERYBODY, 17, udp(68, 67, asking(MAC.a2))), BROADCAST),
    drop('dhcp_client'),
  ),
  row('a request by its own MAC behind IP options', 'a1', says(udp(68, 67, asking(MAC.a1)), { options }), pass(NET.a)),
  row('a request in fragments', 'a1', says(udp(68, 67, asking(MAC.a1)), { fragment: MORE }), drop('dhcp_client')),
  row('what is too short for a request', 'a1', says(udp(68, 67, Buffer.alloc(33))), pass(NET.a)),
  row(
    'a request by another MAC in a net that the node does not serve',
    'c1',
    ofC1(udp(68, 67, asking(MAC.c2))),
    pass(NET.c),
  ),
  row(
    'a request in fragments in a net that the node does not serve',
    'c1',
    ofC1(udp(68, 67, asking(MAC.c1)), { fragment: MORE }),
    pass(NET.c),
  ),
]
