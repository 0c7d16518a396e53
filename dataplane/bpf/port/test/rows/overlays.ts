/** What comes in by tunnels to other nodes and leaves by them. `overlay` carries net a, `tunnel` what belongs to no net. */
import { arp, BROADCAST, ethernet, type Tag, TYPE } from '../packet.ts'
import { IP, MAC, NET, PORT } from '../world.ts'
import { datagram, drop, pass, type Row, redirect, rowsAt, stamp } from './row.ts'

const incoming = rowsAt('uplink_in')
const outgoing = rowsAt('uplink_out')
const local = rowsAt('port_in')
const FAR_IP = '10.0.0.200'
const vid = (id: number): Tag => ({ vid: id })
const far = (to: string, ...tags: Tag[]) => datagram(MAC.far, to, FAR_IP, IP.a1, tags)
const behind = (port: keyof typeof PORT) => ({
  given: (world: { far: Map<string, number> }) => void world.far.set(`${NET.a}/${MAC.far}`, PORT[port]),
})
const arpFromA1 = ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip: IP.a1 }, { ip: FAR_IP }))
const gone = { verdict: 'pass', mark: 0, beside: 0 } as const

export const OVERLAY_IN: readonly Row[] = [
  incoming('to a port of its net', 'overlay', far(MAC.a1), redirect('a1', NET.a)),
  incoming('for many', 'overlay', far(BROADCAST), pass(NET.a)),
  incoming('to the MAC of another net', 'overlay', far(MAC.c1), pass(NET.a)),
  incoming(
    'a local MAC from off the node does not move it',
    'overlay',
    datagram(MAC.a1, MAC.a2, IP.a1, IP.a2),
    redirect('a2', NET.a),
  ),
  incoming('a tag inside the net', 'overlay', far(MAC.a1, vid(9)), redirect('a1', NET.a)),
  incoming('the tag of its own net', 'overlay', far(MAC.a1, vid(100)), drop('vlan_of_net')),
  incoming('the tag of another net', 'overlay', far(MAC.c1, vid(300)), drop('vlan_of_net')),
  incoming('a locked tag', 'overlay', far(MAC.a1, vid(7)), drop('vlan_locked')),
  incoming('for open ports', 'tunnel', far(BROADCAST), pass(0)),
  incoming('nobody gets into a net through its tag', 'tunnel', far(MAC.a1, vid(100)), drop('vlan_of_net')),
  incoming('nor through one beside the frame', 'tunnel', far(MAC.a1), drop('vlan_of_net'), { beside: 0x8100_0064 }),
  incoming('nor through one within another', 'tunnel', far(MAC.a1, vid(9), vid(100)), drop('vlan_of_net')),
  local(
    'to what is behind it',
    'a1',
    datagram(MAC.a1, MAC.far, IP.a1, FAR_IP),
    redirect('overlay', NET.a),
    behind('overlay'),
  ),
  local(
    'to what was behind it when it was of that net',
    'a1',
    datagram(MAC.a1, MAC.far, IP.a1, FAR_IP),
    pass(NET.a),
    behind('tunnel'),
  ),
]

export const OVERLAY_OUT: readonly Row[] = [
  outgoing(
    'its net leaves without tag',
    'overlay',
    arpFromA1,
    { ...gone, data: arpFromA1 },
    { mark: stamp(NET.a), from: PORT.a1 },
  ),
  outgoing('another net', 'overlay', arpFromA1, drop('other_net'), { mark: stamp(NET.c), from: PORT.c1 }),
  outgoing('open ports', 'overlay', arpFromA1, drop('other_net'), { mark: stamp(0), from: PORT.o1 }),
  outgoing('open ports, by a tunnel for them', 'tunnel', arpFromA1, gone, { mark: stamp(0), from: PORT.o1 }),
  outgoing('a net with VLAN, by a tunnel for open ports', 'tunnel', arpFromA1, drop('other_net'), {
    mark: stamp(NET.a),
    from: PORT.a1,
  }),
  outgoing('from the node', 'tunnel', arpFromA1, gone, { mark: stamp(0) }),
  outgoing('from the node, which routed it', 'tunnel', arpFromA1, gone, { mark: stamp(0), from: PORT.bridge }),
  outgoing('vxlan-12 from one tunnel to another', 'tunnel', arpFromA1, drop('transit'), {
    mark: stamp(0),
    from: PORT.overlay,
  }),
  outgoing('vxlan-12 from a tunnel of the same net', 'overlay', arpFromA1, drop('transit'), {
    mark: stamp(NET.a),
    from: PORT.tunnel,
  }),
  outgoing('from an uplink to a tunnel', 'overlay', arpFromA1, drop('transit'), {
    mark: stamp(NET.a),
    from: PORT.uplink,
  }),
  outgoing('from a tunnel to an uplink', 'uplink', arpFromA1, drop('transit'), {
    mark: stamp(NET.a),
    from: PORT.overlay,
  }),
  outgoing(
    'control: from one uplink to another',
    'uplink',
    arpFromA1,
    { ...gone, beside: 0x8100_012c },
    { mark: stamp(NET.c), from: PORT.fixed },
  ),
  outgoing('from a port that is not guarded', 'overlay', arpFromA1, drop('unstamped'), { from: PORT.stranger }),
]
