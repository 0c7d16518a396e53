/** A guest that plays the DHCP server for its neighbours, or asks in their name: what real clients make of it. */
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import {
  arp,
  BROADCAST,
  ethernet,
  extension,
  ipv4,
  ipv6,
  type Tag,
  TYPE,
  udp,
} from '../../../dataplane/bpf/port/test/packet.ts'
import { macBytes } from '../../../dataplane/netlink/inet.ts'
import { dhclient, dhcpcd, networkd, type RealClient, udhcpc } from '../../../responder/dhcp/test/real-clients.ts'
import { scratch } from '../../../test/build.ts'
import { type Tap, tap } from '../../../test/frames.ts'
import { requireRoot, type Scope } from '../../../test/netns.ts'
import { type Guest, workloadNode } from '../../../test/workload.ts'

requireRoot(t)

const EVERYBODY = '255.255.255.255'
const node = await workloadNode(t)

/** Clients of Debian, each started in the namespace of its guest. */
const CLIENTS: Readonly<Record<string, (t: Scope, guest: Guest) => RealClient>> = {
  udhcpc: (t, { ns }) => udhcpc(t, ns),
  dhclient: (t, { ns }) => dhclient(t, ns, scratch(t)),
  dhcpcd: (t, { ns }) => dhcpcd(t, ns),
  'systemd-networkd': (t, { ns }) => networkd(t, ns),
}

async function create(name: string, cidr: string, gateway: string, more: object): Promise<string> {
  const { network } = await node.ok('POST', '/api/v1/networks', { name, cidr, gateway, ...more })
  return (network as { id: string }).id
}

/** A guest whose MAC is bound to `ip`. */
async function bound(network: string, name: string, ip: string): Promise<Guest> {
  const mac = `02:00:${[...randomBytes(4)].map((byte) => byte.toString(16).padStart(2, '0')).join(':')}`
  const guest = node.guest(name, { mac })
  await node.guarded(guest)
  await node.ok('POST', `/api/v1/networks/${network}/attach`, { ip, mac })
  // Its port is the network's once it has spoken.
  tap(t, guest.ns).send(ethernet(BROADCAST, mac, TYPE.arp, arp(1, { mac, ip }, { ip })))
  await node.inNetwork(guest)
  return guest
}

/** How an answer is put into frames; `from` and `to` are MACs. */
type Form = (from: string, ip: string, answer: Buffer) => Buffer[]
const plain =
  (port: number, more: { options?: Buffer; fragment?: number } = {}, tags: Tag[] = []): Form =>
  (from, ip, answer) => [
    ethernet(BROADCAST, from, TYPE.ipv4, ipv4(ip, EVERYBODY, 17, udp(port, 68, answer), more), tags),
  ]
const FORMS: Readonly<Record<string, Form>> = {
  'from port 67': plain(67),
  'from another port': plain(1067),
  'behind IP options': plain(1067, { options: Buffer.alloc(8, 1) }),
  'in VLAN 0': plain(1067, {}, [{ vid: 0 }]),
  'in VLAN 0 twice': plain(1067, {}, [{ vid: 0 }, { vid: 0, type: TYPE.service }]),
  'as a later fragment': plain(1067, { fragment: 5 }),
  'in two fragments': (from, ip, answer) => {
    const whole = udp(1067, 68, answer)
    const part = (at: number, bytes: Buffer, more: number) =>
      ethernet(BROADCAST, from, TYPE.ipv4, ipv4(ip, EVERYBODY, 17, bytes, { fragment: more | (at / 8) }))
    return [part(0, whole.subarray(0, 16), 0x2000), part(16, whole.subarray(16), 0)]
  },
  'in LLC/SNAP': (from, ip, answer) => {
    const packet = ipv4(ip, EVERYBODY, 17, udp(1067, 68, answer))
    return [
      ethernet(BROADCAST, from, packet.length + 8, Buffer.concat([Buffer.from('aaaa030000000800', 'hex'), packet])),
    ]
  },
}

/** OFFER or ACK to a request: the address that is asked for, and the sender itself as router. */
function answerTo(request: Buffer, offered: string, self: string, mark: Buffer): Buffer {
  const quad = (text: string) => Buffer.from(text.split('.').map(Number))
  const head = Buffer.from(request.subarray(0, 236))
  head[0] = 2
  head.set(quad(offered), 16)
  // sname: what the sender writes there nobody reads.
  head.set(mark, 44)
  const kind = request[242] === 1 ? 2 : 5
  const options = [
    [53, Buffer.from([kind])],
    [54, quad(self)],
    [51, Buffer.from([0, 0, 14, 16])],
  ] as const
  const rest = [
    [1, quad('255.255.255.0')],
    [3, quad(self)],
    [6, quad(self)],
  ] as const
  const told = [...options, ...rest].flatMap(([code, value]) => [Buffer.from([code, value.length]), value])
  return Buffer.concat([head, Buffer.from('63825363', 'hex'), ...told, Buffer.from([255]), Buffer.alloc(40)])
}

/** Answers every request that it hears in each form; `mark` is in all of them. */
function rogue(t: Scope, attacker: Tap, self: string, offered: string, forms: readonly Form[]): Buffer {
  const mark = randomBytes(16)
  const look = () => {
    for (const frame of attacker.seen()) {
      if (frame.length < 290 || frame.readUInt16BE(12) !== TYPE.ipv4 || frame.readUInt16BE(36) !== 67) continue
      const answer = answerTo(frame.subarray(42), offered, self, mark)
      for (const form of forms) for (const one of form(attacker.mac, self, answer)) attacker.send(one)
    }
  }
  const timer = setInterval(look, 1)
  t.teardown(() => clearInterval(timer))
  return mark
}

const served = await create('served', '10.0.0.0/24', '10.0.0.1', { dhcp: true })
const alone = await create('alone', '10.4.0.0/24', '10.4.0.1', {})

for (const [name, client] of Object.entries(CLIENTS)) {
  t.test(`${name} takes the address that the node gives, whatever a neighbour answers`, async (t) => {
    const control = await bound(alone, 'k', '10.4.0.30')
    const there = await bound(alone, 'l', '10.4.0.31')
    const mark = rogue(t, tap(t, there.ns), '10.4.0.31', '10.4.0.30', [FORMS['from another port'] as Form])
    const seenThere = tap(t, control.ns)
    t.match(await client(t, control).router(), '10.4.0.31', 'control: elsewhere whoever wants to may, by any port')
    t.ok(seenThere.seen().some((frame) => frame.includes(mark)))

    const victim = await bound(served, 'v', '10.0.0.30')
    const attacker = await bound(served, 'w', '10.0.0.31')
    const lies = rogue(t, tap(t, attacker.ns), '10.0.0.31', '10.0.0.30', Object.values(FORMS))
    const seen = tap(t, victim.ns)
    t.equal(await client(t, victim).router(), '10.0.0.1')
    await delay(100)
    t.notOk(
      seen.seen().some((frame) => frame.includes(lies)),
      'nothing that the neighbour answers arrives',
    )
    for (const [network, ip] of [
      [alone, '10.4.0.30'],
      [alone, '10.4.0.31'],
      [served, '10.0.0.30'],
      [served, '10.0.0.31'],
    ] as const) {
      const { endpoints } = await node.ok('GET', `/api/v1/networks/${network}/endpoints`)
      const { id } = (endpoints as { id: string; ip: string }[]).find((one) => one.ip === ip) ?? { id: '' }
      await node.ok('POST', `/api/v1/networks/${network}/endpoints/${id}/detach`)
    }
  })
}

t.test('each form of an answer is dropped at the port of who gives it', async (t) => {
  const [attacker, victim] = [await bound(served, 'f', '10.0.0.41'), await bound(served, 'g', '10.0.0.42')]
  const [from, to] = [tap(t, attacker.ns), tap(t, victim.ns)]
  const request = Buffer.alloc(300)
  request[242] = 1
  const six = (mark: Buffer, wrap: (packet: Buffer) => Buffer, next = 17) =>
    ethernet('33:33:00:00:00:01', from.mac, TYPE.ipv6, ipv6('fe80::41', 'ff02::1', next, wrap(udp(5470, 546, mark))))
  const forms: [string, (mark: Buffer) => Buffer[]][] = [
    ...Object.entries(FORMS).map(([name, form]): [string, (mark: Buffer) => Buffer[]] => [
      name,
      (mark) => form(from.mac, '10.0.0.41', answerTo(request, '10.0.0.42', '10.0.0.41', mark)),
    ]),
    ['of DHCPv6 from another port', (mark) => [six(mark, (packet) => packet)]],
    ['of DHCPv6 behind options', (mark) => [six(mark, (packet) => extension(17, packet), 60)]],
    ['of DHCPv6 in a fragment', (mark) => [six(mark, (packet) => extension(17, packet), 44)]],
  ]
  for (const [name, frames] of forms) {
    const [mark, end] = [randomBytes(16), randomBytes(16)]
    for (const frame of frames(mark)) from.send(frame)
    from.send(ethernet(BROADCAST, from.mac, TYPE.ipv4, ipv4('10.0.0.41', EVERYBODY, 17, udp(5, 6, end))))
    const seen = await until(to, end)
    t.notOk(
      seen.some((frame) => frame.includes(mark)),
      name,
    )
  }
})

t.test('nobody asks in the name of a neighbour', async (t) => {
  const [attacker, victim] = [await bound(served, 'h', '10.0.0.51'), await bound(served, 'i', '10.0.0.52')]
  const [from, to] = [tap(t, attacker.ns), tap(t, victim.ns)]
  t.equal(await (CLIENTS.udhcpc as NonNullable<(typeof CLIENTS)[string]>)(t, victim).router(), '10.0.0.1')
  const inform = (mac: string, name: string) => {
    const head = Buffer.alloc(236)
    head.set([1, 1, 6])
    head.set(macBytes(mac), 28)
    const options = Buffer.from([53, 1, 1, 12, name.length, ...Buffer.from(name), 255])
    const message = Buffer.concat([head, Buffer.from('63825363', 'hex'), options, Buffer.alloc(60)])
    return ethernet(BROADCAST, from.mac, TYPE.ipv4, ipv4('0.0.0.0', EVERYBODY, 17, udp(68, 67, message)))
  }
  from.seen()
  from.send(inform(to.mac, 'mallory'))
  from.send(inform(from.mac, 'own'))
  const isAnswer = (frame: Buffer) => frame.length > 290 && frame.readUInt16BE(36) === 68
  const answers = (await until(from, macBytes(from.mac), isAnswer)).filter(isAnswer)
  t.notOk(
    answers.some((frame) => frame.includes(macBytes(to.mac), 42)),
    'the node answers what it asks for itself, and nothing else',
  )
  const { leases } = await node.ok('GET', '/api/v1/dhcp/leases')
  t.notMatch(JSON.stringify(leases), 'mallory')
  await node.event('endpoint.violation', ({ reason, mac }) => reason === 'dhcp_client' && mac === from.mac)
})

/** What has come in when a frame with `end` comes. */
async function until(to: Tap, end: Buffer, holds: (frame: Buffer) => boolean = () => true): Promise<Buffer[]> {
  const signal = AbortSignal.timeout(10_000)
  const all: Buffer[] = []
  for (;;) {
    all.push(...to.seen())
    if (all.some((frame) => frame.includes(end) && holds(frame))) return all
    if (signal.aborted) throw new Error('the frame that marks the end did not arrive')
    await delay(1)
  }
}
