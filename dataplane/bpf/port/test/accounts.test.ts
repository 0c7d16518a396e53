import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { arp, BROADCAST, ethernet, extension, ipv4, ipv6, type Tag, TYPE, tcp, udp } from './packet.ts'
import { stamp } from './rows/row.ts'
import { type Packet, type Stage, stage } from './stage.ts'
import { IP, MAC, NET, PORT, SLOT, world } from './world.ts'

requireRoot(t)

const fromA1 = (payload: Uint8Array, type: number = TYPE.ipv4, tags: readonly Tag[] = []): Packet => ({
  hook: 'port_in',
  ifindex: PORT.a1,
  data: ethernet(MAC.a2, MAC.a1, type, payload, tags),
})
const stream = (payload: number, words?: number) => ipv4(IP.a1, IP.a2, 6, tcp(Buffer.alloc(payload), words))
const linkLocal = (next: number, payload: Uint8Array) => ipv6('fe80::1', 'fe80::2', next, payload)

/** What one packet adds to a1's sent and a2's got: frames and bytes. */
async function counted(play: Stage, packet: Packet): Promise<{ up: [number, number]; down: [number, number] }> {
  play.set(world())
  await play.run(packet)
  await play.run({ ...packet, hook: 'port_out', ifindex: PORT.a2, mark: stamp(NET.a) })
  const [a1, a2] = [play.slots.account(SLOT.a1), play.slots.account(SLOT.a2)]
  return {
    up: [Number(a1.upPackets), Number(a1.upBytes)],
    down: [Number(a2.downPackets), Number(a2.downBytes)],
  }
}

t.test('what goes over the wire is counted, both ways', async (t) => {
  const play = await stage(t)
  const cases: [name: string, packet: Packet, packets: number, bytes: number][] = [
    ['a frame', fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2))), 1, 60],
    ['a tag in the frame', fromA1(stream(100), TYPE.ipv4, [{ vid: 8 }]), 1, 158],
    ['a tag beside the frame', { ...fromA1(stream(100)), beside: 0x8100_0008 }, 1, 158],
    ['TCP to be cut in equal parts', { ...fromA1(stream(3000)), gsoSize: 1000 }, 3, 3000 + 3 * 54],
    ['TCP to be cut with a rest', { ...fromA1(stream(2001)), gsoSize: 1000 }, 3, 2001 + 3 * 54],
    ['TCP with options to be cut', { ...fromA1(stream(3000, 8)), gsoSize: 1000 }, 3, 3000 + 3 * 66],
    ['TCP that is smaller than a segment', { ...fromA1(stream(700)), gsoSize: 1000 }, 1, 754],
    ['TCP without payload', { ...fromA1(stream(0)), gsoSize: 1000 }, 1, 54],
    ['TCP to be cut, tagged', { ...fromA1(stream(3000), TYPE.ipv4, [{ vid: 8 }]), gsoSize: 1000 }, 3, 3000 + 3 * 58],
    [
      'TCP to be cut, one tag beside and one in the frame',
      { ...fromA1(stream(3000), TYPE.ipv4, [{ vid: 9 }]), gsoSize: 1000, beside: 0x8100_0008 },
      3,
      3000 + 3 * 62,
    ],
    [
      'UDP to be cut',
      { ...fromA1(ipv4(IP.a1, IP.a2, 17, udp(1, 2, Buffer.alloc(2500)))), gsoSize: 1000 },
      3,
      2500 + 3 * 42,
    ],
    [
      'TCP over IPv6 to be cut',
      { ...fromA1(linkLocal(6, tcp(Buffer.alloc(2500))), TYPE.ipv6), gsoSize: 1000 },
      3,
      2500 + 3 * 74,
    ],
    [
      'TCP over IPv6 behind an extension header',
      { ...fromA1(linkLocal(60, extension(6, tcp(Buffer.alloc(2500)))), TYPE.ipv6), gsoSize: 1000 },
      3,
      2500 + 3 * 82,
    ],
    ['what cannot be read counts as one', { ...fromA1(Buffer.alloc(3000), 0x88b5), gsoSize: 1000 }, 1, 3014],
  ]
  for (const [name, packet, packets, bytes] of cases)
    t.same(await counted(play, packet), { up: [packets, bytes], down: [packets, bytes] }, name)
})

t.test('what is dropped, is for everybody or is of no net counts for nobody', async (t) => {
  const play = await stage(t)
  const zero = { up: [0, 0], down: [0, 0] }
  t.same(await counted(play, fromA1(ipv4(IP.a2, IP.a2, 17, udp(1, 2)))), { ...zero, down: [1, 60] }, 'a spoofed source')
  const request = ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip: IP.a1 }, { ip: IP.a2 }))
  t.same(
    await counted(play, { ...fromA1(Buffer.alloc(1)), data: request }),
    { ...zero, up: [1, 42] },
    'a broadcast is sent by one and got by nobody in particular',
  )
  const open = ethernet(MAC.a1, MAC.o1, TYPE.ipv4, ipv4(IP.o1, IP.o2, 17, udp(1, 2)))
  t.same(await counted(play, { hook: 'port_in', ifindex: PORT.o1, data: open }), zero)
})

t.test('a frame that is flooded is got once, at the port that has the MAC', async (t) => {
  const play = await stage(t)
  play.set(world())
  const flooded: Packet = { ...fromA1(stream(100)), hook: 'port_out', mark: stamp(NET.a) }
  await play.run({ ...flooded, ifindex: PORT.a1 })
  t.match(play.slots.account(SLOT.a2), { downPackets: 0n, downBytes: 0n })
  await play.run({ ...flooded, ifindex: PORT.a2 })
  t.match(play.slots.account(SLOT.a2), { downPackets: 1n, downBytes: 154n })
})

t.test('the same MAC in two nets has two accounts', async (t) => {
  const play = await stage(t)
  play.set(world())
  const data = fromA1(stream(100)).data
  await play.run({ hook: 'port_in', ifindex: PORT.a1, data })
  await play.run({ hook: 'port_in', ifindex: PORT.b1, data })
  await play.run({ hook: 'port_out', ifindex: PORT.b2, data, mark: stamp(NET.b) })
  const account = { upPackets: 0n, upBytes: 0n, downPackets: 0n, downBytes: 0n }
  t.same(play.slots.account(SLOT.a1), { ...account, upPackets: 1n, upBytes: 154n })
  t.same(play.slots.account(SLOT.b1), { ...account, upPackets: 1n, upBytes: 154n })
  t.same(play.slots.account(SLOT.b2), { ...account, downPackets: 1n, downBytes: 154n })
  t.same(play.slots.account(SLOT.a2), account)
})

t.test('a limited tenant owes what goes over the wire', async (t) => {
  const play = await stage(t)
  const one = world()
  one.tenantNets.set(NET.a, { bucket: 3, rate: 1, blocked: false })
  one.owed.set(3, { up: 0, down: 0 })
  play.set(one)
  const packet = { ...fromA1(stream(3000)), gsoSize: 1000 }
  await play.run(packet)
  t.same(play.changes(one).owed.get(3), { up: 3000 + 3 * 54, down: 0 })
  await play.run({ ...packet, hook: 'port_out', ifindex: PORT.a2, mark: stamp(NET.a), beside: 0x8100_0008 })
  t.same(play.changes(one).owed.get(3), { up: 3000 + 3 * 54, down: 3000 + 3 * 58 })
})
