/** Limits on what is not IPv4 between veths: IPv6, a tap as hypervisors hold it, a host beyond an uplink. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type Netns, netns, requireRoot, veth } from '../../../test/netns.ts'
import { BANDWIDTH, type Place, pairsOf, place, rateInto, stream } from './lab.ts'

requireRoot(t)

const RATE = 8_000_000
/** A busy machine sends less, but never more: what is above the rate is the burst. */
const within = (rate: number, limit: number): boolean => rate <= limit * 1.03 && rate >= limit * 0.7

t.test('bw-06 IPv6 waits in the class of its MAC as IPv4 does', async (t) => {
  const { node, mac, guest } = await place(t, 2)
  for (const n of [1, 2]) {
    guest(n).ns.run('ip', 'address', 'add', `fd77::${n}/64`, 'dev', 'eth0', 'nodad')
  }
  t.ok(guest(1).reaches('fd77::2'))
  const streams = [stream(guest(1).ns, 'fd77::2', RATE * 2), stream(guest(2).ns, 'fd77::1', RATE * 2)]
  await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac(1), rate_bps: RATE })
  const [up = 0, down = 0] = await Promise.all([2, 1].map((n) => rateInto(guest(n).ns, 1500)))
  t.ok(within(up, RATE), `up ${up}`)
  t.ok(within(down, RATE), `down ${down}`)
  for (const n of [1, 2]) guest(n).ns.run('ip', 'neigh', 'flush', 'all')
  t.ok(guest(1).reaches('fd77::2'), 'neighbours are asked by multicast')
  await node.ok('DELETE', `${BANDWIDTH}/one`)
  t.ok((await rateInto(guest(2).ns, 1500)) > RATE * 1.3, 'unshaped')
  await Promise.all(streams.map((one) => one.stop()))
})

/**
 * A hypervisor: a tap in whose place a guest would be. Writes frames at a rate (bits a second), and tells each 100 ms by
 * its clock how many bytes it has read.
 */
const HYPERVISOR = `
const koffi = require('koffi')
const { openSync, readSync, writeSync, constants } = require('node:fs')
const [frame, rate] = process.argv.slice(1)
const ioctl = koffi.load(null).func('int ioctl(int fd, unsigned long request, _Inout_ void *argument)')
const fd = openSync('/dev/net/tun', constants.O_RDWR | constants.O_NONBLOCK)
const request = Buffer.alloc(40)
request.write('tap0')
request.writeUInt16LE(0x1002, 16) // IFF_TAP | IFF_NO_PI
if (ioctl(fd, 0x400454ca, request) < 0) throw new Error('no tap')
const bytes = Buffer.from(frame, 'hex')
const buffer = Buffer.alloc(65536)
const since = performance.now()
let [sent, got] = [0, 0]
setInterval(() => {
  try { for (;;) got += readSync(fd, buffer) } catch {}
  const due = (performance.now() - since) / 1000 * Number(rate) / 8 / bytes.length
  try { for (let n = 0; sent < due && n < 200; n++, sent++) writeSync(fd, bytes) } catch {}
  sent = Math.max(sent, due - 200)
}, 2)
setInterval(() => process.stdout.write(performance.now() + ' ' + got + '\\n'), 100)
`

/** A datagram in a frame. */
function datagram(to: string, from: string, length: number): Buffer {
  const hex = (mac: string) => Buffer.from(mac.replaceAll(':', ''), 'hex')
  const ip = Buffer.from('45000000000040004011000000000000ffffffff', 'hex')
  ip.writeUInt16BE(length - 14, 2)
  ip.set([10, 77, 0, 9, 10, 77, 0, 2], 12)
  let sum = 0
  for (let at = 0; at < 20; at += 2) sum += ip.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  ip.writeUInt16BE(~sum & 0xffff, 10)
  const udp = Buffer.alloc(length - 34)
  udp.writeUInt16BE(9999, 0)
  udp.writeUInt16BE(9999, 2)
  udp.writeUInt16BE(udp.length, 4)
  return Buffer.concat([hex(to), hex(from), Buffer.from([8, 0]), ip, udp])
}

/** Starts the hypervisor; resolves with what tells the bits a second that it reads within a time. */
async function hypervisor(it: Place, mac: string): Promise<(ms: number) => Promise<number>> {
  const { ns } = it.node
  const modules = fileURLToPath(new URL('../../../../node_modules', import.meta.url))
  const arguments_ = ['-e', HYPERVISOR, datagram(it.mac(2), mac, 1442).toString('hex'), String(RATE * 2)]
  const child = ns.spawn(process.execPath, arguments_, { env: { ...process.env, NODE_PATH: modules } })
  let lines: [at: number, bytes: number][] = []
  let rest = ''
  child.stdout?.on('data', (bytes: Buffer) => {
    const parts = (rest + bytes).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts.map((line) => line.split(' ').map(Number) as [number, number]))
  })
  await it.until('the tap is there', () => ns.run('ip', '-o', 'link').includes(' tap0:'))
  ns.run('ip', 'link', 'set', 'tap0', 'master', 'br-work', 'up')
  return async (ms) => {
    lines = []
    const span = () => (lines.at(-1)?.[0] ?? 0) - (lines[0]?.[0] ?? 0)
    await it.until('enough was read', () => span() >= ms)
    return (((lines.at(-1)?.[1] ?? 0) - (lines[0]?.[1] ?? 0)) * 8000) / span()
  }
}

t.test('bw-06 bw-21 a limit holds for a workload behind a tap', async (t) => {
  const it = await place(t, 2)
  const { node, guest } = it
  const mac = '02:00:00:00:77:99'
  const received = await hypervisor(it, mac)
  guest(2).ns.run('ip', 'neigh', 'add', '10.77.0.9', 'lladdr', mac, 'dev', 'eth0')
  const sent = () => rateInto(guest(2).ns, 1500)
  await it.until('its frames arrive', async () => (await rateInto(guest(2).ns, 200)) > RATE)
  const flood = stream(guest(2).ns, '10.77.0.9', RATE * 2)
  t.ok((await received(1000)) > RATE * 1.3, 'unshaped')
  await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac, rate_bps: RATE })
  const [up, down] = await Promise.all([sent(), received(1500)])
  t.ok(within(up, RATE), `up ${up}`)
  t.ok(within(down, RATE), `down ${down}`)
  await node.ok('DELETE', `${BANDWIDTH}/one`)
  const [free, open] = await Promise.all([sent(), received(1500)])
  t.ok(free > RATE * 1.3 && open > RATE * 1.3, `unshaped ${free} ${open}`)
  await it.until('no device is left', () => pairsOf(it).length === 0)
  await flood.stop()
})

t.test('bw-06 a host beyond an uplink is reached as before, and a limit of its MAC holds nothing', async (t) => {
  const it = await place(t, 2, { config: { workload_uplinks: 'up0' } })
  const { node, guest, address } = it
  const far = netns(t, 'far')
  const mac = '02:00:00:00:00:99'
  veth(t, { ns: node.ns, name: 'up0' }, { ns: far, name: 'eth0', addr: '10.77.0.9/24', mac })
  node.ns.run('ip', 'link', 'set', 'up0', 'master', 'br-work')
  t.ok(guest(1).reaches('10.77.0.9'))
  await node.ok('POST', BANDWIDTH, { id: 'one', target_mac: mac, rate_bps: RATE })
  const streams = [send(far, address(1)), send(guest(1).ns, '10.77.0.9')]
  const rates = await Promise.all([guest(1).ns, far].map((ns) => rateInto(ns, 1500)))
  t.ok(
    rates.every((rate) => rate > RATE * 1.3),
    `${rates}`,
  )
  // The workload that it talks to can be limited.
  await node.ok('POST', BANDWIDTH, { id: 'two', target_mac: it.mac(1), rate_bps: RATE })
  const [got = 0, sent = 0] = await Promise.all([guest(1).ns, far].map((ns) => rateInto(ns, 1500)))
  t.ok(within(got, RATE), `down ${got}`)
  t.ok(within(sent, RATE), `up ${sent}`)
  await Promise.all(streams.map((one) => one.stop()))
})

const send = (ns: Netns, address: string) => stream(ns, address, RATE * 2)
