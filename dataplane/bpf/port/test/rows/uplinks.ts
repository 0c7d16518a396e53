/** What comes from off the node and leaves it. `fixed` carries net c without tag. */
import { arp, BROADCAST, ethernet, NO_MAC, type Tag, TYPE } from '../packet.ts'
import { IP, MAC, NET, PORT } from '../world.ts'
import { datagram, drop, fromOutside, pass, type Row, redirect, rowsAt, stamp } from './row.ts'

const incoming = rowsAt('uplink_in')
const outgoing = rowsAt('uplink_out')
const FAR_IP = '10.0.0.200'
const vid = (id: number): Tag => ({ vid: id })
const far = (to: string, ...tags: Tag[]) => datagram(MAC.far, to, FAR_IP, IP.a1, tags)
/** The same without the outer tag, which the program has taken. */
const plain = (to: string) => far(to)
const beside = (id: number) => ({ beside: 0x8100_0000 + id })
const bare = { beside: 0 }

export const UPLINK_IN: readonly Row[] = [
  incoming('the tag of a net: taken away, and to the port', 'uplink', far(MAC.a1, vid(100)), {
    ...redirect('a1', NET.a),
    ...bare,
    data: plain(MAC.a1),
  }),
  incoming(
    'the tag of a net beside the frame',
    'uplink',
    far(MAC.a1),
    { ...redirect('a1', NET.a), ...bare },
    beside(100),
  ),
  incoming('the tag of a net, broadcast', 'uplink', far(BROADCAST, vid(100)), {
    ...pass(NET.a),
    data: plain(BROADCAST),
  }),
  incoming(
    'the tag of a net, service kind',
    'uplink',
    far(MAC.a1, { vid: 100, type: TYPE.service }),
    redirect('a1', NET.a),
  ),
  incoming('the tag of a net with priority bits', 'uplink', far(MAC.a1, vid(0xa064)), redirect('a1', NET.a)),
  incoming("the tag of another net to this one's MAC", 'uplink', far(MAC.a1, vid(300)), {
    ...pass(NET.c),
    data: plain(MAC.a1),
  }),
  incoming('a tag within the tag of a net stays', 'uplink', far(MAC.a1, vid(100), vid(9)), {
    ...redirect('a1', NET.a),
    ...beside(9),
  }),
  incoming(
    'a tag in the frame within one beside it',
    'uplink',
    far(MAC.a1, vid(9)),
    { ...redirect('a1', NET.a), ...beside(9) },
    beside(100),
  ),
  incoming('without tag: for open ports', 'uplink', far(BROADCAST), { ...fromOutside, data: far(BROADCAST) }),
  incoming("a tag that is nobody's stays", 'uplink', far(BROADCAST, vid(55)), {
    ...fromOutside,
    data: far(BROADCAST, vid(55)),
  }),
  incoming('vlan-03 a locked tag', 'uplink', far(BROADCAST, vid(7)), drop('vlan_locked')),
  incoming('vlan-03 a locked tag beside the frame', 'uplink', far(BROADCAST), drop('vlan_locked'), beside(7)),
  incoming('a locked tag within the tag of a net', 'uplink', far(MAC.a1, vid(100), vid(7)), drop('vlan_locked')),
  incoming('the tag of a net that is locked down', 'uplink', far(MAC.a1, vid(100)), drop('vlan_locked'), {
    given: (world) => world.vlans.set(100, { locked: true, net: NET.a }),
  }),
  incoming('the tag of a net within a strange one', 'uplink', far(MAC.a1, vid(8), vid(100)), fromOutside),
  incoming('three tags', 'uplink', far(MAC.a1, vid(100), vid(8), vid(9)), drop('tags')),
  incoming('a tag that ends too early', 'uplink', far(MAC.a1, vid(100)).subarray(0, 16), drop('short')),
  incoming(
    'source MAC multicast',
    'uplink',
    datagram('03:00:00:00:00:01', MAC.a1, FAR_IP, IP.a1, [vid(100)]),
    drop('source_mac'),
  ),
  incoming('source MAC zero', 'uplink', datagram(NO_MAC, MAC.a1, FAR_IP, IP.a1), drop('source_mac')),
  incoming(
    'LLDP of the switch',
    'uplink',
    ethernet('01:80:c2:00:00:0e', MAC.far, 0x88cc, Buffer.alloc(46)),
    fromOutside,
  ),
  incoming(
    'a local MAC from off the node does not move it',
    'uplink',
    datagram(MAC.a1, MAC.a2, IP.a1, IP.a2, [vid(100)]),
    redirect('a2', NET.a),
  ),
  incoming('a MAC that was never seen', 'uplink', far(MAC.a3, vid(100)), pass(NET.a)),
  incoming(
    'for somebody behind the same uplink',
    'uplink',
    datagram('02:fa:00:00:00:02', MAC.far, FAR_IP, FAR_IP, [vid(100)]),
    drop('hairpin'),
  ),
  incoming(
    'from one uplink to another',
    'uplink',
    datagram('02:fa:00:00:00:02', '02:fa:00:00:00:03', FAR_IP, FAR_IP, [vid(300)]),
    redirect('fixed', NET.c),
    {
      given: (world) => world.far.set(`${NET.c}/02:fa:00:00:00:03`, PORT.fixed),
    },
  ),
  incoming(
    'a far MAC that moved to another uplink is learned anew',
    'fixed',
    datagram(MAC.far, BROADCAST, IP.c1, IP.c2),
    pass(NET.c),
    {
      given: (world) => world.far.set(`${NET.c}/${MAC.far}`, PORT.uplink),
    },
  ),
  incoming(
    'longer than the MTU of the port',
    'uplink',
    ethernet(MAC.a1, MAC.far, 0x88b5, Buffer.alloc(1501), [vid(100)]),
    drop('too_long'),
  ),
  incoming(
    'as long as the MTU of the port, tagged',
    'uplink',
    ethernet(MAC.a1, MAC.far, 0x88b5, Buffer.alloc(1500), [vid(100)]),
    redirect('a1', NET.a),
  ),
  incoming(
    'as long as the MTU of the port, in two tags',
    'uplink',
    ethernet(MAC.a1, MAC.far, 0x88b5, Buffer.alloc(1500), [vid(100), vid(9)]),
    redirect('a1', NET.a),
  ),
  incoming('a port that carries one net', 'fixed', datagram(MAC.far, MAC.c1, IP.c2, IP.c1), redirect('c1', NET.c)),
  incoming(
    'a port that carries one net: tags are inside it',
    'fixed',
    datagram(MAC.far, MAC.c1, IP.c2, IP.c1, [vid(100)]),
    {
      ...redirect('c1', NET.c),
      data: datagram(MAC.far, MAC.c1, IP.c2, IP.c1, [vid(100)]),
    },
  ),
  incoming(
    'a port that carries one net: locked tags',
    'fixed',
    datagram(MAC.far, MAC.c1, IP.c2, IP.c1, [vid(7)]),
    drop('vlan_locked'),
  ),
  incoming('by a port that is not guarded', 'stranger', far(BROADCAST), drop('no_port')),
]

const arpFromA1 = ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip: IP.a1 }, { ip: FAR_IP }))

export const UPLINK_OUT: readonly Row[] = [
  outgoing(
    'a net with VLAN gets its tag',
    'uplink',
    arpFromA1,
    { verdict: 'pass', mark: 0, ...beside(100), data: arpFromA1 },
    { mark: stamp(NET.a) },
  ),
  outgoing(
    'a net with VLAN, by a routed address',
    'uplink',
    arpFromA1,
    { verdict: 'pass', mark: 0, ...beside(100) },
    { mark: stamp(NET.a, true) },
  ),
  outgoing(
    'a tag inside the net is kept within it',
    'uplink',
    arpFromA1,
    {
      verdict: 'pass',
      ...beside(100),
      data: ethernet(BROADCAST, MAC.a1, TYPE.arp, arpFromA1.subarray(14), [vid(8)]),
    },
    { mark: stamp(NET.a), ...beside(8) },
  ),
  outgoing('a net without VLAN never leaves', 'uplink', arpFromA1, drop('no_vlan'), { mark: stamp(NET.b) }),
  outgoing('a net that has no row', 'uplink', arpFromA1, drop('no_vlan'), { mark: stamp(77) }),
  outgoing('the net of a routed NIC never leaves by its layer 2', 'uplink', arpFromA1, drop('no_vlan'), {
    mark: stamp(NET.routed),
  }),
  outgoing('a net whose VLAN is locked down', 'uplink', arpFromA1, drop('vlan_locked'), {
    mark: stamp(NET.a),
    given: (world) => world.vlans.set(100, { locked: true, net: NET.a }),
  }),
  outgoing(
    'from an open port as it is',
    'uplink',
    arpFromA1,
    { verdict: 'pass', mark: 0, ...bare },
    { mark: stamp(0) },
  ),
  outgoing(
    'from an open port with its tag',
    'uplink',
    arpFromA1,
    { verdict: 'pass', mark: 0, ...beside(8) },
    { mark: stamp(0), ...beside(8) },
  ),
  outgoing('from a port that is not guarded', 'uplink', arpFromA1, drop('unstamped')),
  outgoing('a mark of somebody else', 'uplink', arpFromA1, drop('unstamped'), { mark: 0x1234 }),
  outgoing("the node's own LLDP", 'uplink', ethernet('01:80:c2:00:00:0e', MAC.node, 0x88cc, Buffer.alloc(46)), {
    verdict: 'pass',
    mark: 0,
  }),
  outgoing(
    'LLDP under a mark of somebody else',
    'uplink',
    ethernet('01:80:c2:00:00:0e', MAC.node, 0x88cc, Buffer.alloc(46)),
    drop('unstamped'),
    { mark: 5 },
  ),
  outgoing(
    'a port that carries one net',
    'fixed',
    arpFromA1,
    { verdict: 'pass', mark: 0, ...bare },
    { mark: stamp(NET.c) },
  ),
  outgoing('a port that carries one net: another net', 'fixed', arpFromA1, drop('other_net'), { mark: stamp(NET.a) }),
  outgoing('a port that carries one net: open ports', 'fixed', arpFromA1, drop('other_net'), { mark: stamp(0) }),
  outgoing('by a port that is not guarded', 'stranger', arpFromA1, drop('no_port'), { mark: stamp(0) }),
]
