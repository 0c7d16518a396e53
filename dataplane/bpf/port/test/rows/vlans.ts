/** Tags that workloads send, in the frame and beside it. Of the world's VLANs, 7 is locked, 100 and 300 are of nets. */
import { arp, BROADCAST, ethernet, ipv4, type Tag, TYPE, udp } from '../packet.ts'
import { IP, MAC, NET } from '../world.ts'
import { datagram, drop, pass, type Row, redirect, rowsAt } from './row.ts'

const row = rowsAt('port_in')
const SERVICE = TYPE.service
/** Where a network card puts the outer tag. */
const beside = (vid: number, type: number = TYPE.vlan) => ({ beside: type * 65536 + vid })
const o1 = (...tags: Tag[]) => datagram(MAC.o1, BROADCAST, IP.o1, '10.9.0.255', tags)
const a1 = (fromIp: string, ...tags: Tag[]) => datagram(MAC.a1, MAC.a2, fromIp, IP.a2, tags)
const tags = (...vids: number[]): Tag[] => vids.map((vid) => ({ vid }))

export const VLANS: readonly Row[] = [
  row('vlan-02 a VLAN without policy', 'o1', o1(...tags(8)), pass(0)),
  row('vlan-02 a VLAN without policy, tag beside the frame', 'o1', o1(), { ...pass(0), ...beside(8) }, beside(8)),
  row('vlan-03 a locked VLAN', 'o1', o1(...tags(7)), drop('vlan_locked')),
  row('vlan-03 a locked VLAN, tag beside the frame', 'o1', o1(), drop('vlan_locked'), beside(7)),
  row('vlan-03 a locked VLAN with priority bits', 'o1', o1(...tags(0xe007)), drop('vlan_locked')),
  row('vlan-03 a locked VLAN with a service tag', 'o1', o1({ vid: 7, type: SERVICE }), drop('vlan_locked')),
  row('vlan-03 a locked VLAN on a private port', 'a1', a1(IP.a1, ...tags(7)), drop('vlan_locked')),
  row('vlan-05 the VLAN is allowed again', 'o1', o1(...tags(7)), pass(0), { given: (world) => world.vlans.delete(7) }),
  row('inner tag locked', 'o1', o1({ vid: 8, type: SERVICE }, { vid: 7 }), drop('vlan_locked')),
  row('outer tag locked, inner free', 'o1', o1(...tags(7, 8)), drop('vlan_locked')),
  row('inner tag locked, outer beside the frame', 'o1', o1(...tags(7)), drop('vlan_locked'), beside(8, SERVICE)),
  row('outer tag beside the frame locked, inner free', 'o1', o1(...tags(8)), drop('vlan_locked'), beside(7)),
  row('two free tags', 'o1', o1({ vid: 8, type: SERVICE }, { vid: 9 }), pass(0)),
  row('two free tags of the customer kind', 'o1', o1(...tags(8, 9)), pass(0)),
  row('three tags', 'o1', o1(...tags(8, 9, 10)), drop('tags')),
  row('three tags, one beside the frame', 'o1', o1(...tags(9, 10)), drop('tags'), beside(8)),
  row('the old EtherType of stacked tags', 'o1', ethernet(BROADCAST, MAC.o1, 0x9100, Buffer.alloc(50)), drop('tags')),
  row(
    'the old EtherType behind a tag',
    'o1',
    ethernet(BROADCAST, MAC.o1, 0x9100, Buffer.alloc(50), tags(8)),
    drop('tags'),
  ),
  row('a tag that ends too early', 'o1', o1(...tags(8)).subarray(0, 17), drop('short')),
  row('a second tag that ends too early', 'o1', o1(...tags(8, 9)).subarray(0, 21), drop('short')),
  row('injection into a net by its VLAN', 'o1', o1(...tags(100)), drop('vlan_of_net')),
  row('injection, tag beside the frame', 'o1', o1(), drop('vlan_of_net'), beside(100)),
  row('injection by an inner tag', 'o1', o1({ vid: 8, type: SERVICE }, { vid: 100 }), drop('vlan_of_net')),
  row('injection behind a priority tag', 'o1', o1(...tags(0, 300)), drop('vlan_of_net')),
  row("a MAC of the net with the net's own VLAN", 'a1', a1(IP.a1, ...tags(100)), drop('vlan_of_net')),
  row('locked wins over of a net', 'o1', o1(...tags(100, 7)), drop('vlan_locked')),
  row('priority tag', 'a1', a1(IP.a1, ...tags(0)), redirect('a2', NET.a)),
  row('a free tag inside a net', 'a1', a1(IP.a1, ...tags(8)), redirect('a2', NET.a)),
  row(
    'a free tag inside a net stays beside the frame',
    'a1',
    a1(IP.a1),
    { ...redirect('a2', NET.a), ...beside(8) },
    beside(8),
  ),
  row('spoofed source behind a priority tag', 'a1', a1('10.0.0.9', ...tags(0)), drop('address')),
  row('spoofed source behind one tag', 'a1', a1('10.0.0.9', ...tags(8)), drop('address')),
  row('spoofed source behind two tags', 'a1', a1('10.0.0.9', ...tags(8, 9)), drop('address')),
  row('spoofed source, tag beside the frame', 'a1', a1('10.0.0.9'), drop('address'), beside(8)),
  row(
    'spoofed source, one tag beside and one in the frame',
    'a1',
    a1('10.0.0.9', ...tags(9)),
    drop('address'),
    beside(8),
  ),
  row(
    'spoofed ARP behind a tag',
    'a1',
    ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(2, { mac: MAC.a1, ip: IP.gatewayA }, { ip: IP.a2 }), tags(8)),
    drop('arp'),
  ),
  row(
    'ARP behind two tags, in 50 bytes',
    'a1',
    ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(2, { mac: MAC.a1, ip: IP.a1 }, { ip: IP.a2 }), tags(8, 9)),
    pass(NET.a),
  ),
  row(
    'open port, private source behind two tags',
    'o1',
    datagram(MAC.o1, BROADCAST, IP.a3, IP.a2, tags(8, 9)),
    drop('private_address'),
  ),
  row(
    'open port, private source, tag beside the frame',
    'o1',
    datagram(MAC.o1, BROADCAST, IP.a3, IP.a2),
    drop('private_address'),
    beside(8),
  ),
  row(
    'DHCP behind two tags',
    'a1',
    ethernet(BROADCAST, MAC.a1, TYPE.ipv4, ipv4('0.0.0.0', '255.255.255.255', 17, udp(68, 67)), tags(8, 9)),
    pass(NET.a),
  ),
]
