/** What is wrapped in LLC/SNAP, which some receivers unwrap. */
import { arp, BROADCAST, ethernet, ipv4, ipv6, type Tag, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET, type PortName } from '../world.ts'
import { drop, pass, type Row, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const JUMBO = 0x8870
const SNAP = 'aaaa03000000'

const type = (number: number) => Buffer.from(number.toString(16).padStart(4, '0'), 'hex')
/** A frame whose length field tells the truth unless `length` is given. */
function wrapped(
  inner: number,
  payload: Uint8Array,
  { head = SNAP, tags = [], length }: { head?: string; tags?: Tag[]; length?: number } = {},
): Buffer {
  const llc = Buffer.concat([Buffer.from(head, 'hex'), type(inner), payload])
  return ethernet(BROADCAST, MAC.a1, length ?? llc.length, llc, tags)
}
const datagram = ipv4(IP.a1, IP.a2, 17, udp(5, 6))
const spoken = arp(1, { mac: MAC.a1, ip: IP.gatewayA }, { ip: IP.a2 })
const byO1 = (frame: Buffer) =>
  Buffer.concat([frame.subarray(0, 6), Buffer.from('02aa00000001', 'hex'), frame.subarray(12)])

const DROPPED: readonly [name: string, frame: Buffer, port?: PortName][] = [
  ['IPv4', wrapped(TYPE.ipv4, datagram)],
  ['ARP', wrapped(TYPE.arp, spoken)],
  ['RARP', wrapped(TYPE.rarp, spoken)],
  ['IPv6', wrapped(TYPE.ipv6, ipv6('fe80::1', 'ff02::1', 58, Buffer.from([134, 0, 0, 0])))],
  ['a tag', wrapped(TYPE.vlan, Buffer.alloc(60))],
  ['a service tag', wrapped(TYPE.service, Buffer.alloc(60))],
  ['an old tag', wrapped(0x9100, Buffer.alloc(60))],
  ['IPv4 by the tunnel encapsulation of 802.1H', wrapped(TYPE.ipv4, datagram, { head: 'aaaa030000f8' })],
  ['IPv4 with the bits of group and response set', wrapped(TYPE.ipv4, datagram, { head: 'abab03000000' })],
  ['IPv4 with the poll bit set', wrapped(TYPE.ipv4, datagram, { head: 'aaaa13000000' })],
  ['IPv4 behind a tag', wrapped(TYPE.ipv4, datagram, { tags: [{ vid: 8 }] })],
  ['IPv4 behind VLAN 0', wrapped(TYPE.ipv4, datagram, { tags: [{ vid: 0 }] })],
  ['IPv4 behind two tags', wrapped(TYPE.ipv4, datagram, { tags: [{ vid: 0 }, { vid: 8, type: TYPE.service }] })],
  ['IPv4 behind a length that is too short', wrapped(TYPE.ipv4, datagram, { length: 0 })],
  ['IPv4 behind a length that is too long', wrapped(TYPE.ipv4, datagram, { length: 1535 })],
  ['IPv4 in a jumbo frame', wrapped(TYPE.ipv4, datagram, { length: JUMBO })],
  ['IPv4 of an open port', byO1(wrapped(TYPE.ipv4, datagram)), 'o1'],
  ['ARP of an open port', byO1(wrapped(TYPE.arp, spoken)), 'o1'],
]

export const LLC: readonly Row[] = [
  ...DROPPED.map(([name, frame, port = 'a1']) => row(name, port, frame, drop('llc'))),
  row('another EtherType', 'a1', wrapped(0x88b5, Buffer.alloc(40)), pass(NET.a)),
  row('a protocol of another organisation', 'a1', wrapped(TYPE.ipv4, datagram, { head: 'aaaa0300000c' }), pass(NET.a)),
  row('LLC without SNAP', 'a1', wrapped(0, Buffer.alloc(40), { head: '424203' }), pass(NET.a)),
  row(
    'a frame that ends within SNAP',
    'a1',
    ethernet(BROADCAST, MAC.a1, 7, Buffer.from('aaaa0300000008', 'hex')),
    pass(NET.a),
  ),
]
