import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { run } from '../../test/support.ts'
import type { ReasonName } from '../reason.ts'
import { type Bridge, bridge } from './bridge.ts'
import { arp, BROADCAST, ethernet, ipv4, NO_MAC, type Tag, TYPE, udp } from './packet.ts'
import { datagram } from './rows/row.ts'
import { IP, MAC, PORT, type PortName, world } from './world.ts'

/** A frame, where it comes from, who gets it, and why others did not. */
type Row = [name: string, from: PortName, frame: Buffer, to: string, reason?: ReasonName]

const FAR_IP = '10.0.0.200'
const tagged = (...vids: number[]): Tag[] => vids.map((vid) => ({ vid }))
const announce = (mac: string, ip: string) => ethernet(BROADCAST, mac, TYPE.arp, arp(1, { mac, ip }, { ip }))
const discover = ethernet(BROADCAST, MAC.a1, TYPE.ipv4, ipv4('0.0.0.0', '255.255.255.255', 17, udp(68, 67)))
const a1 = (to: string, toIp: string, ...tags: Tag[]) => datagram(MAC.a1, to, IP.a1, toIp, tags)
const o1 = (to: string, ...tags: Tag[]) => datagram(MAC.o1, to, IP.o1, IP.o2, tags)
const far = (to: string, ...tags: Tag[]) => datagram(MAC.far, to, FAR_IP, IP.a1, tags)

/** In this order: ports are claimed and homes found on the way. */
const ROWS: readonly Row[] = [
  ['an open port gets nothing of a net', 'c1', announce(MAC.c1, IP.c1), 'uplink fixed', 'other_net'],
  ['its announcement makes c2 a port of the net', 'c2', announce(MAC.c2, IP.c2), 'c1 uplink fixed'],
  ['r1 has nobody to talk to', 'r1', announce(MAC.r1, IP.r1), '', 'no_vlan'],
  ['unicast inside a net', 'a1', a1(MAC.a2, IP.a2), 'a2'],
  ['the same frame in another net', 'b1', a1(MAC.a2, IP.a2), 'b2'],
  ['between claimed ports', 'c1', datagram(MAC.c1, MAC.c2, IP.c1, IP.c2), 'c2'],
  ['net-27 a wrong source address', 'a1', datagram(MAC.a1, MAC.a2, IP.a3, IP.a2), '', 'address'],
  ['net-27 a foreign MAC', 'a1', datagram(MAC.nobody, MAC.a2, IP.a1, IP.a2), '', 'unbound'],
  ["a neighbour's MAC", 'a1', datagram(MAC.a2, MAC.a1, IP.a2, IP.a1), '', 'home'],
  ['a MAC of another net, by an open port', 'o1', datagram(MAC.c1, MAC.c2, IP.c1, IP.c2), '', 'home'],
  ['a MAC of two nets, by an open port', 'o1', a1(MAC.a2, IP.a2), '', 'ambiguous'],
  ['broadcast stays in its net and leaves by its tag', 'a1', a1(BROADCAST, '10.0.0.255'), 'a2 uplink'],
  ['broadcast of a net without VLAN does not leave', 'b1', a1(BROADCAST, '10.0.0.255'), 'b2', 'no_vlan'],
  ['unknown unicast is flooded inside its net', 'a1', a1('02:00:00:00:12:34', '10.0.0.77'), 'a2 uplink'],
  ['multicast stays in its net', 'c1', datagram(MAC.c1, '01:00:5e:00:00:fb', IP.c1, '224.0.0.251'), 'c2 uplink fixed'],
  ['DHCP of a bound MAC', 'a1', discover, 'a2 uplink'],
  ['ARP that speaks for the gateway', 'a1', announce(MAC.a1, IP.gatewayA), '', 'arp'],
  ['an open port to an open port', 'o1', o1(MAC.o2), 'o2 uplink'],
  ['broadcast of an open port', 'o1', o1(BROADCAST), 'o2 uplink', 'other_net'],
  ['an open port to a MAC of a net', 'o1', o1(MAC.c1), '', 'other_net'],
  ['a net to a MAC of an open port', 'c1', datagram(MAC.c1, MAC.o1, IP.c1, IP.o1), '', 'other_net'],
  ['an open port by a private address', 'o1', datagram(MAC.o1, MAC.o2, IP.c2, IP.o2), '', 'private_address'],
  [
    'a port that is not guarded reaches nobody',
    'stranger',
    datagram('02:ee:00:00:00:01', BROADCAST, IP.a1, IP.a2),
    '',
    'unstamped',
  ],
  [
    'a port that is not guarded to a MAC of a net',
    'stranger',
    datagram('02:ee:00:00:00:01', MAC.a1, IP.a2, IP.a1),
    '',
    'unstamped',
  ],
  ['spanning tree', 'o1', ethernet('01:80:c2:00:00:00', MAC.o1, 0x88b5, Buffer.alloc(46)), '', 'reserved'],
  ['source MAC zero', 'o1', datagram(NO_MAC, MAC.o2, IP.o1, IP.o2), '', 'source_mac'],
  ['vlan-02 a tag from an open port', 'o1', o1(BROADCAST, ...tagged(8)), 'o2 uplink'],
  ['vlan-03 a locked tag', 'o1', o1(BROADCAST, ...tagged(7)), '', 'vlan_locked'],
  ['a locked tag within another', 'o1', o1(BROADCAST, ...tagged(8, 7)), '', 'vlan_locked'],
  ['injection by the tag of a net', 'o1', o1(BROADCAST, ...tagged(100)), '', 'vlan_of_net'],
  ['three tags', 'o1', o1(BROADCAST, ...tagged(8, 9, 10)), '', 'tags'],
  ['a spoofed source behind a tag', 'a1', datagram(MAC.a1, MAC.a2, IP.a3, IP.a2, tagged(8)), '', 'address'],
  ['a spoofed source behind two tags', 'a1', datagram(MAC.a1, MAC.a2, IP.a3, IP.a2, tagged(8, 9)), '', 'address'],
  ['a tag inside a net', 'a1', a1(MAC.a2, IP.a2, ...tagged(8)), 'a2'],
  ['from off the node by tag to everybody in the net', 'uplink', far(BROADCAST, ...tagged(100)), 'a1 a2'],
  ['from off the node by tag to a MAC of two nets', 'uplink', far(MAC.a1, ...tagged(100)), 'a1'],
  ['to a MAC behind the uplink nobody else gets it', 'a1', datagram(MAC.a1, MAC.far, IP.a1, FAR_IP), 'uplink'],
  ['from off the node by the tag of another net', 'uplink', far(MAC.a1, ...tagged(300)), '', 'other_net'],
  ['from off the node without tag', 'uplink', far(BROADCAST), 'o1 o2', 'other_net'],
  ["from off the node by nobody's tag", 'uplink', far(BROADCAST, ...tagged(55)), 'o1 o2'],
  ['from off the node by a locked tag', 'uplink', far(BROADCAST, ...tagged(7)), '', 'vlan_locked'],
  ['by the uplink of one net', 'fixed', datagram(MAC.far, BROADCAST, IP.c2, IP.c1), 'c1 c2 uplink'],
  [
    'a local MAC from off the node does not move it',
    'uplink',
    datagram(MAC.a1, MAC.a2, IP.a1, IP.a2, tagged(100)),
    'a2',
  ],
  ['so the MAC is still at its port', 'a2', datagram(MAC.a2, MAC.a1, IP.a2, IP.a1), 'a1'],
]

requireRoot(t)

/** Numbers the frame, sends it, and tells at whose far ends it came out. */
async function receivers(here: Bridge, from: PortName, frame: Buffer, expected: number): Promise<Map<string, Buffer>> {
  const got = new Map<string, Buffer>()
  here.wires[from]?.send(frame)
  // The kernel delivers before `send` returns, unless it is so busy that a thread of its own must; then it is waited for.
  const deadline = performance.now() + 2000
  for (let quiet = 0; quiet < 2 && performance.now() < deadline; ) {
    for (const [name, wire] of Object.entries(here.wires))
      for (const received of wire.drain()) if (received.includes(frame.subarray(-8))) got.set(name, received)
    quiet = got.size >= expected ? quiet + 1 : 0
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return got
}

const numbered = (frame: Buffer, number: number) => {
  const trailer = Buffer.from('PPID\0\0\0\0')
  trailer.writeUInt32BE(number, 4)
  return Buffer.concat([frame, trailer])
}

t.test('real frames come out where they shall, and nowhere else', async (t) => {
  const here = await bridge(t)
  const start = world()
  start.ports.set(PORT.c1, 0)
  start.far.clear()
  here.set(start)
  for (const [n, [name, from, frame, to, reason]] of ROWS.entries()) {
    const before = await here.tallies()
    const wanted = to.split(' ').filter(Boolean)
    const got = await receivers(here, from, numbered(frame, n), wanted.length)
    const after = await here.tallies()
    t.same([...got.keys()].sort(), wanted.sort(), name)
    if (reason) t.ok((after.get(reason) ?? 0) > (before.get(reason) ?? 0), `${name}: for this reason`)
  }
})

t.test('tags are pushed on an uplink and popped from it', async (t) => {
  const here = await bridge(t, ['a1', 'a2', 'uplink'])
  here.set(world())
  const own = numbered(a1(BROADCAST, '10.0.0.255'), 1)
  const out = (await receivers(here, 'a1', own, 2)).get('uplink')
  t.equal(out?.toString('hex', 12, 16), '81000064')
  t.same(Buffer.concat([out?.subarray(0, 12) ?? own, out?.subarray(16) ?? own]), own)
  const theirs = numbered(far(MAC.a1, ...tagged(100)), 2)
  const popped = (await receivers(here, 'uplink', theirs, 1)).get('a1')
  t.same(popped, Buffer.concat([theirs.subarray(0, 12), theirs.subarray(16)]))
  const inner = numbered(a1(BROADCAST, '10.0.0.255', ...tagged(9)), 3)
  const stacked = (await receivers(here, 'a1', inner, 2)).get('uplink')
  t.equal(stacked?.toString('hex', 12, 20), '8100006481000009')
})

t.test('the node answers a net that it is the gateway of, and no other', async (t) => {
  const here = await bridge(t, ['a1', 'b1', 'c1', 'r1', 'stranger', 'uplink'])
  here.set(world())
  for (const address of [`${IP.gatewayA}/24`, `${IP.gatewayC}/24`, '169.254.0.1/32'])
    run('ip', 'address', 'add', address, 'dev', 'br-work')
  run('ip', 'route', 'add', `${IP.r1}/32`, 'dev', 'br-work')
  for (const [ip, mac] of [
    [IP.a1, MAC.a1],
    [IP.c1, MAC.c1],
    [IP.r1, MAC.r1],
  ] as const)
    run('ip', 'neigh', 'replace', ip, 'lladdr', mac, 'nud', 'permanent', 'dev', 'br-work')
  const asks = (mac: string, ip: string, target: string) =>
    ethernet(BROADCAST, mac, TYPE.arp, arp(1, { mac, ip }, { ip: target }))
  const echo = (mac: string, from: string, to: string) =>
    ethernet(MAC.node, mac, TYPE.ipv4, ipv4(from, to, 1, Buffer.from('0800f7ff00000000', 'hex')))
  const isAnswer = (reply: Buffer) => reply.readUInt16BE(12) === TYPE.arp || reply[34] === 0
  const answered = async (from: PortName, frame: Buffer, expected: boolean) => {
    here.wires[from]?.drain()
    here.wires[from]?.send(frame)
    const deadline = performance.now() + (expected ? 2000 : 20)
    while (performance.now() < deadline) {
      if (here.wires[from]?.drain().some(isAnswer)) return true
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    return false
  }
  const cases: [name: string, from: PortName, frame: Buffer, expected: boolean][] = [
    ['ARP for the gateway', 'a1', asks(MAC.a1, IP.a1, IP.gatewayA), true],
    ['a ping of the gateway', 'a1', echo(MAC.a1, IP.a1, IP.gatewayA), true],
    ['the same in a net without host gateway', 'b1', asks(MAC.b1, IP.a1, IP.gatewayA), false],
    ['a ping from a net without host gateway', 'b1', echo(MAC.b1, IP.a1, IP.gatewayA), false],
    ["another net's gateway", 'c1', asks(MAC.c1, IP.c1, IP.gatewayA), false],
    ['its own gateway', 'c1', asks(MAC.c1, IP.c1, IP.gatewayC), true],
    ['a routed NIC asks for the routed gateway', 'r1', asks(MAC.r1, IP.r1, IP.routedGateway), true],
    ['a routed NIC pings the routed gateway', 'r1', echo(MAC.r1, IP.r1, IP.routedGateway), true],
    ["a routed NIC asks for a net's gateway", 'r1', asks(MAC.r1, IP.r1, IP.gatewayA), false],
    ['a port that is not guarded', 'stranger', asks('02:ee:00:00:00:01', '10.0.0.9', IP.gatewayA), false],
    ['from off the node for an address of the net', 'uplink', asks(MAC.far, '10.0.0.9', IP.gatewayA), false],
  ]
  for (const [name, from, frame, expected] of cases) t.equal(await answered(from, frame, expected), expected, name)
  run('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.all.send_redirects=0')
  const before = (await here.tallies()).get('host_routing') ?? 0
  t.equal(await answered('c1', echo(MAC.a1, IP.a1, IP.c1), false), false)
  here.wires.a1?.send(echo(MAC.a1, IP.a1, IP.c1))
  t.equal(await answered('c1', echo(MAC.c1, IP.c1, IP.gatewayC), true), true, 'the node is alive')
  t.equal((await here.tallies()).get('host_routing'), before + 1, 'the node does not route between nets')
})
