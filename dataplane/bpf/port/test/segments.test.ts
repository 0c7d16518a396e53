import '../../../../test/inside.ts'
import { closeSync, openSync, writeSync } from 'node:fs'
import koffi from 'koffi'
import t, { type Test } from 'tap'
import { requireRoot, type Scope } from '../../../../test/netns.ts'
import { KernelError } from '../../../libc.ts'
import { run } from '../../test/support.ts'
import { type Bridge, bridge } from './bridge.ts'
import { arp, BROADCAST, ethernet, ipv4, type Tag, TYPE, tcp, udp } from './packet.ts'
import { segmented, Wire } from './wire.ts'
import { IP, MAC, NET, PORT, SLOT, world } from './world.ts'

/** linux/if_tun.h */
const TUNSETIFF = 0x4004_54ca
const [IFF_TAP, IFF_NO_PI, IFF_VNET_HDR] = [0x0002, 0x1000, 0x4000]

const ioctl: (fd: number, request: number, argument: Uint8Array) => number = koffi
  .load(null)
  .func('int ioctl(int fd, unsigned long request, _Inout_ void *argument)')

requireRoot(t)

/** A tap on br-work as a hypervisor holds one: `write` takes a struct virtio_net_hdr and a frame. */
async function tap(t: Scope, here: Bridge): Promise<{ index: number; write(bytes: Buffer): void }> {
  const fd = openSync('/dev/net/tun', 'r+')
  const request = Buffer.alloc(40)
  request.write('tap')
  request.writeUInt16LE(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, 16)
  if (ioctl(fd, TUNSETIFF, request) < 0) throw new KernelError(koffi.errno())
  t.teardown(() => closeSync(fd))
  run('ip', 'link', 'set', 'tap', 'master', 'br-work', 'up')
  const index = Number(/^([0-9]+):/.exec(run('ip', '-o', 'link', 'show', 'dev', 'tap'))?.[1])
  await here.guard(index, 'workload')
  return { index, write: (bytes) => void writeSync(fd, bytes) }
}

const stream = (from: string, payload: number, tags: readonly Tag[] = [], words = 5) =>
  ethernet(MAC.a2, from, TYPE.ipv4, ipv4(IP.a1, IP.a2, 6, tcp(Buffer.alloc(payload, 'x'), words)), tags)
/** A struct virtio_net_hdr that asks for nothing but a linear part of `length`. */
const plain = (frame: Buffer, length = 0) => {
  const header = Buffer.alloc(10)
  header.writeUInt16LE(length, 2)
  return Buffer.concat([header, frame])
}

const CASES: readonly [name: string, frame: Buffer, size: number][] = [
  ['20,000 bytes in parts of 1448', stream(MAC.a1, 20_000), 1448],
  ['60,000 bytes in parts of 1000, which it divides by', stream(MAC.a1, 60_000), 1000],
  ['with options', stream(MAC.a1, 20_000, [], 8), 1436],
  ['within a tag', stream(MAC.a1, 20_000, [{ vid: 8 }]), 1444],
]

/** What came in at a2's far end, where each part is a frame of its own. */
async function arrived(here: Bridge, atLeast: number): Promise<{ frames: number; bytes: number }> {
  const frames: Buffer[] = []
  const deadline = performance.now() + 2000
  while (frames.length < atLeast && performance.now() < deadline) {
    frames.push(...(here.wires.a2?.drain() ?? []))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  frames.push(...(here.wires.a2?.drain() ?? []))
  return { frames: frames.length, bytes: frames.reduce((sum, { length }) => sum + length, 0) }
}

async function compare(t: Pick<Test, 'same'>, here: Bridge, write: (bytes: Buffer) => void): Promise<void> {
  for (const [name, frame, size] of CASES) {
    here.slots.clear(SLOT.a2)
    const up = here.slots.account(SLOT.a1)
    const [before, beforeBytes] = [up.upPackets, up.upBytes]
    const headers = frame.length - (frame.length > 50_000 ? 60_000 : 20_000)
    const payload = frame.length - headers
    const parts = Math.ceil(payload / size)
    write(segmented(frame, size))
    const truth = { frames: parts, bytes: payload + parts * headers }
    t.same(await arrived(here, parts), truth, `${name}: on the wire`)
    const { downPackets, downBytes } = here.slots.account(SLOT.a2)
    t.same({ frames: Number(downPackets), bytes: Number(downBytes) }, truth, `${name}: counted as got`)
    const after = here.slots.account(SLOT.a1)
    const sent = { frames: Number(after.upPackets - before), bytes: Number(after.upBytes - beforeBytes) }
    t.same(sent, truth, `${name}: counted as sent`)
  }
}
/** Frames dropped for the address that they gave. */
async function refused(here: Bridge): Promise<number> {
  const tallies = await here.tallies()
  return (tallies.get('address') ?? 0) + (tallies.get('arp') ?? 0)
}

t.test('frames that are cut later are counted as they will be, from a veth', async (t) => {
  const here = await bridge(t, ['a1', 'a2'])
  here.set(world())
  run('ip', 'link', 'set', 'a2', 'gso_max_size', '1500')
  const wire = new Wire(t, here.peers, 'a1', { vnet: true })
  await compare(t, here, (bytes) => wire.send(bytes))
})

t.test('frames that are cut later are counted as they will be, from a tap', async (t) => {
  const here = await bridge(t, ['a2'])
  const { index, write } = await tap(t, here)
  const start = world()
  start.ports.set(index, NET.a)
  start.endpoints.set(`${NET.a}/${MAC.a1}`, { address: IP.a1, claims: 0, home: 0, slot: SLOT.a1 })
  here.set(start)
  run('ip', 'link', 'set', 'a2', 'gso_max_size', '1500')
  await compare(t, here, write)
})

t.test('a guest decides how much of its frame is linear, and changes nothing by it', async (t) => {
  const here = await bridge(t, ['a2'])
  const { index, write } = await tap(t, here)
  const start = world()
  start.ports.delete(PORT.a1)
  start.ports.set(index, NET.a)
  here.set(start)
  const datagram = (ip: string, tags: readonly Tag[] = []) =>
    ethernet(MAC.a2, MAC.a1, TYPE.ipv4, ipv4(ip, IP.a2, 17, udp(1, 2, Buffer.alloc(1200))), tags)
  const asks = (ip: string, tags: readonly Tag[] = []) =>
    ethernet(BROADCAST, MAC.a1, TYPE.arp, arp(1, { mac: MAC.a1, ip }, { ip: IP.a2 }), tags)
  const cases: [name: string, frame: Buffer, passes: boolean][] = [
    ['a right source', datagram(IP.a1), true],
    ['a spoofed source', datagram(IP.a3), false],
    ['a right source behind a tag', datagram(IP.a1, [{ vid: 8 }]), true],
    ['a spoofed source behind a tag', datagram(IP.a3, [{ vid: 8 }]), false],
    ['a spoofed source behind two tags', datagram(IP.a3, [{ vid: 8 }, { vid: 9 }]), false],
    ['right ARP', asks(IP.a1), true],
    ['right ARP behind two tags', asks(IP.a1, [{ vid: 8 }, { vid: 9 }]), true],
    ['spoofed ARP', asks(IP.gatewayA), false],
    ['spoofed ARP behind two tags', asks(IP.gatewayA, [{ vid: 8 }, { vid: 9 }]), false],
  ]
  for (const length of [0, 14, 18, 20, 34, 45]) {
    // The kernel takes no frame that is shorter than its linear part.
    for (const [name, frame, passes] of cases.filter(([, frame]) => frame.length >= length)) {
      const before = await refused(here)
      write(plain(frame, length))
      const { frames } = await arrived(here, passes ? 1 : 0)
      t.same([frames, (await refused(here)) - before], passes ? [1, 0] : [0, 1], `${length} bytes linear: ${name}`)
    }
  }
})
