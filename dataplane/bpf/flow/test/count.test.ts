import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { ethernet, extension, ipv4, ipv6, type Tag, TYPE, tcp, udp } from '../../port/test/packet.ts'
import { stamp } from '../../port/test/rows/row.ts'
import { type Packet, type Stage, stage } from '../../port/test/stage.ts'
import { IP, MAC, NET, PORT, world } from '../../port/test/world.ts'
import type { Flow } from '../read.ts'
import { openTraffic, type Traffic, type Usage } from '../traffic.ts'

requireRoot(t)

const [SYN, ACK, RST] = [0x02, 0x10, 0x04]
const play = await stage(t)
const traffic = openTraffic(play.maps)
// The maps that a node has room for a million in have less here.
t.ok(traffic.flowsLimit() >= 65_536)

async function all({ flows }: Traffic): Promise<Flow[]> {
  const found: Flow[] = []
  for await (const some of flows()) found.push(...some)
  return found
}
async function fresh({ set, maps }: Stage): Promise<void> {
  for (const map of [maps.flows4, maps.flows6]) {
    await map.deleteBatch((await map.lookupBatch()).map(([key]) => key) as never)
  }
  for (const map of [maps.usageBound, maps.usageOpen]) {
    await map.deleteBatch((await map.lookupBatch()).map(([mac]) => mac))
  }
  set(world())
}

const from = (
  port: 'a1' | 'a2' | 'b1' | 'o1',
  payload: Uint8Array,
  type: number = TYPE.ipv4,
  tags: readonly Tag[] = [],
) => {
  const to = { a1: MAC.a2, a2: MAC.a1, b1: MAC.b2, o1: MAC.o2 }[port]
  const packet: Packet = { hook: 'port_in', ifindex: PORT[port], data: ethernet(to, MAC[port], type, payload, tags) }
  return packet
}
const flagged = (flags: number, payload = 0) => {
  const segment = tcp(Buffer.alloc(payload))
  segment.writeUInt16BE(40_000, 0)
  segment.writeUInt16BE(443, 2)
  segment[13] = flags
  return segment
}
/** The same segment from the other end. */
const answered = (flags: number) => {
  const segment = flagged(flags)
  segment.writeUInt16BE(443, 0)
  segment.writeUInt16BE(40_000, 2)
  return segment
}

t.test('flow-04 bytes are those on the wire, whatever a frame looks like', async (t) => {
  const cases: [name: string, packet: Packet, packets: number, bytes: number][] = [
    ['a datagram', from('a1', ipv4(IP.a1, IP.a2, 17, udp(1, 2))), 1, 60],
    ['a segment', from('a1', ipv4(IP.a1, IP.a2, 6, tcp(Buffer.alloc(100)))), 1, 154],
    ['a tag', from('a1', ipv4(IP.a1, IP.a2, 6, tcp(Buffer.alloc(100))), TYPE.ipv4, [{ vid: 8 }]), 1, 158],
    [
      'to be cut',
      { ...from('a1', ipv4(IP.a1, IP.a2, 6, tcp(Buffer.alloc(2001), 8))), gsoSize: 1000 },
      3,
      2001 + 3 * 66,
    ],
    ['ICMP', from('a1', ipv4(IP.a1, IP.a2, 1, Buffer.alloc(64))), 1, 98],
    ['IPv6', from('a1', ipv6('fe80::1', 'fe80::2', 6, tcp(Buffer.alloc(10))), TYPE.ipv6), 1, 84],
    [
      'IPv6 behind an extension header',
      from('a1', ipv6('fe80::1', 'fe80::2', 60, extension(6, tcp(Buffer.alloc(10)))), TYPE.ipv6),
      1,
      92,
    ],
  ]
  for (const [name, packet, packets, bytes] of cases) {
    await fresh(play)
    await play.run(packet)
    const [flow, ...others] = await all(traffic)
    t.same(others, [])
    t.match(flow, { packetsOut: packets, bytesOut: bytes, packetsIn: 0, bytesIn: 0, state: 'new' }, name)
  }
  await fresh(play)
  await play.run(from('a1', ipv4(IP.a3, IP.a2, 17, udp(1, 2))))
  t.same(await all(traffic), [], 'what is dropped is no flow')
})

t.test('flow-03 flow-04 state-14 both directions are one flow, until it is over', async (t) => {
  await fresh(play)
  const one = async () => {
    const flows = await all(traffic)
    t.equal(flows.length, 1)
    return flows[0]
  }
  await play.run(from('a1', ipv4(IP.a1, IP.a2, 6, flagged(SYN))))
  const begun = await one()
  t.match(begun, { srcIp: IP.a1, dstIp: IP.a2, srcPort: 40_000, dstPort: 443, protocol: 6, state: 'new' })
  await play.run(from('a2', ipv4(IP.a2, IP.a1, 6, answered(SYN | ACK))))
  t.match(await one(), { id: begun?.id, srcIp: IP.a1, packetsIn: 1, packetsOut: 1, state: 'new' })
  await play.run(from('a1', ipv4(IP.a1, IP.a2, 6, flagged(ACK, 100))))
  t.match(await one(), { id: begun?.id, packetsOut: 2, bytesOut: 54 + 154, bytesIn: 54, state: 'active' })
  await play.run(from('a2', ipv4(IP.a2, IP.a1, 6, answered(RST))))
  t.match(await one(), { id: begun?.id, packetsIn: 2, state: 'closed' })
  await play.run(from('a1', ipv4(IP.a1, IP.a2, 6, flagged(ACK))))
  t.match(await one(), { id: begun?.id, packetsOut: 3, state: 'closed' }, 'what is late belongs to it')
  // Flows count time in units of 17 ms, and their id has the one in which they began.
  await new Promise((wait) => setTimeout(wait, 40))
  await play.run(from('a1', ipv4(IP.a1, IP.a2, 6, flagged(SYN))))
  const next = await one()
  t.match(next, { packetsOut: 1, packetsIn: 0, state: 'new' }, 'the same ports again')
  t.not(next?.id, begun?.id)

  await fresh(play)
  await play.run(from('a2', ipv4(IP.a2, IP.a1, 6, answered(SYN | ACK))))
  t.match(await one(), { srcIp: IP.a1, dstIp: IP.a2, dstPort: 443 }, 'who answers has not begun')
})

t.test('flow-01 nets with the same addresses, fragments, and flows that are not kept', async (t) => {
  await fresh(play)
  await play.run(from('a1', ipv4(IP.a1, IP.a2, 17, udp(1, 2))))
  await play.run(from('b1', ipv4(IP.a1, IP.a2, 17, udp(1, 2))))
  t.equal((await all(traffic)).length, 2)
  t.same(new Set((await all(traffic)).map(({ srcIp }) => srcIp)).size, 1)
  await fresh(play)
  const later = ipv4(IP.a1, IP.a2, 17, udp(1, 2))
  later.writeUInt16BE(100, 6)
  await play.run(from('a1', later))
  t.match(await all(traffic), [{ srcPort: 0, dstPort: 0, protocol: 17 }])
  traffic.keepFlows(false)
  await fresh(play)
  await play.run(from('a1', ipv4(IP.a1, IP.a2, 17, udp(1, 2))))
  t.same(await all(traffic), [])
  t.equal((await traffic.usage()).length, 1, 'what a MAC sends is counted still')
  traffic.keepFlows(true)
})

t.test('acct-01 what a MAC sends and gets is counted where it is', async (t) => {
  await fresh(play)
  const usage = async () =>
    new Map((await traffic.usage()).map((one): [string, Usage] => [`${one.mac} ${one.bound}`, one]))
  const packet = from('a1', ipv4(IP.a1, IP.a2, 17, udp(1, 2)))
  await play.run(packet)
  await play.run({ ...packet, hook: 'port_out', ifindex: PORT.a2, mark: stamp(NET.a) })
  const seen = await usage()
  t.match(seen.get(`${MAC.a1} true`), { upPackets: 1, upBytes: 60, downPackets: 0, downBytes: 0, address: IP.a1 })
  t.match(seen.get(`${MAC.a2} true`), { upPackets: 0, upBytes: 0, downPackets: 1, downBytes: 60, address: '0.0.0.0' })

  await fresh(play)
  const open = from('o1', ipv4(IP.o1, IP.o2, 17, udp(1, 2)))
  const back: Packet = { ...open, data: ethernet(MAC.o1, MAC.o2, TYPE.ipv4, ipv4(IP.o2, IP.o1, 17, udp(2, 1))) }
  const out = (ifindex: number): Packet => ({ ...back, hook: 'port_out', ifindex, mark: stamp(0) })
  await play.run(out(PORT.o1))
  t.same(await usage(), new Map(), 'a MAC that was never seen has no port')
  await play.run(open)
  await play.run(out(PORT.o1))
  await play.run(out(PORT.o2))
  t.match((await usage()).get(`${MAC.o1} false`), { upPackets: 1, downPackets: 1, downBytes: 60 }, 'flooded: once')
})
