/**
 * What the load balancer costs a packet, by CPU time of test runs on one CPU, less that of the program which makes the packets
 * (`walk` of dataplane/bpf/test/walk.bpf.c). Medians of interleaved rounds; the goals are multiples of the floors of the same
 * run, by which Katran was measured beside an earlier program (established 5.5 times floor and one hash).
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openAttaching } from '../../dataplane/bpf/attach/attaching.ts'
import { ensureBpffs } from '../../dataplane/bpf/bpffs.ts'
import { type Codec, u32 } from '../../dataplane/bpf/codec.ts'
import { openClassifier } from '../../dataplane/bpf/firewall/open.ts'
import type { VipEntry } from '../../dataplane/bpf/lb/entries.ts'
import { BALANCER_OBJECT, openBalancer, pinsOf } from '../../dataplane/bpf/lb/open.ts'
import { ticks } from '../../dataplane/bpf/lb/sockets.ts'
import { openObject } from '../../dataplane/bpf/object.ts'
import { ethernet, ipv4, PROTOCOL, TYPE } from '../../dataplane/bpf/port/test/packet.ts'
import { runProgram } from '../../dataplane/bpf/test_run.ts'
import { NETLINK_ROUTE } from '../../dataplane/netlink/bind.ts'
import { openNetlink } from '../../dataplane/netlink/socket.ts'
import { quantile, type Report, spread } from './figure.ts'
import { rings } from './lb-ring.ts'

const WALK_OBJECT = fileURLToPath(new URL('../../dataplane/bpf/test/walk.bpf.o', import.meta.url))
const ROUNDS = 9
const REPEAT = 100_000
const SINGLES = 3000
const CLIENT = '198.51.100.2'
const VIPS = { nat: '203.0.113.1', direct: '203.0.113.2', turn: '203.0.113.3', wrapped: '203.0.113.4' } as const
/** Behind a router. */
const FAR = '10.77.0.5'
const INSIDE = '10.9.0.11'
const OTHER = '10.9.0.12'
const BESIDE = '198.51.100.11'
const MACS = { up0: '02:00:00:00:00:01', 'br-work': '02:00:00:00:00:02', client: '02:00:00:00:00:03' } as const
const SYN = 0x02
const ACK = 0x10
/** Of the source's and the destination's address and port in a frame. */
const SOURCE = { address: 26, port: 34 }
const DEST = { address: 30, port: 36 }

interface Walk {
  frame: Buffer
  slot: number
  clients: number
  address: number
  port: number
  /** Which of the clients begins. */
  turn?: number
}

const walk: Codec<Walk> = {
  size: 88,
  encode(into, at, { frame, slot, clients, address, port, turn = 0 }) {
    into.fill(0, at, at + 88)
    frame.copy(into, at)
    for (const [n, value] of [slot, clients - 1, address, port, turn].entries())
      into.writeUInt32LE(value, at + 64 + n * 4)
  },
  decode() {
    throw new Error('walks are only written')
  },
}

const run = (line: string) => execFileSync(line.split(' ')[0] ?? '', line.split(' ').slice(1), { stdio: 'pipe' })

function segment(from: [string, number], to: [string, number], flags: number, device: keyof typeof MACS): Buffer {
  const tcp = Buffer.alloc(20)
  tcp.writeUInt16BE(from[1], 0)
  tcp.writeUInt16BE(to[1], 2)
  tcp[12] = 0x50
  tcp[13] = flags
  const packet = ipv4(from[0], to[0], PROTOCOL.tcp, tcp)
  return Buffer.concat([ethernet(MACS[device], MACS.client, TYPE.ipv4, packet)], 64)
}

const vip = (id: string, address: string, backend: string, more: Partial<VipEntry> = {}): VipEntry => ({
  kind: 'vip',
  key: `lb/vip/${id}`,
  id,
  address,
  port: 80,
  protocol: 'tcp',
  algorithm: 'maglev',
  dsr: false,
  backends: [{ id: 'b1', address: backend, port: more.dsr ? 80 : 8080, weight: 1, state: 'up' }],
  ...more,
})

export async function lb(report: Report): Promise<void> {
  for (const name of ['up0', 'br-work'] as const) {
    run(`ip link add ${name} address ${MACS[name]} type veth peer name p-${name}`)
    run(`ip link set ${name} up`)
    run(`ip link set p-${name} up`)
  }
  run('ip address add 198.51.100.1/24 dev up0')
  run('ip address add 10.9.0.1/24 dev br-work')
  run(`ip neighbour add ${INSIDE} lladdr 02:00:00:00:00:11 dev br-work`)
  run(`ip neighbour add ${OTHER} lladdr 02:00:00:00:00:13 dev br-work`)
  run(`ip neighbour add ${BESIDE} lladdr 02:00:00:00:00:12 dev up0`)
  run(`ip route add ${FAR} via ${BESIDE}`)
  const root = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  ensureBpffs(root)
  const onProblem = (error: unknown) => {
    throw error
  }
  const route = openNetlink(NETLINK_ROUTE)
  const classifier = await openClassifier({ root, onProblem })
  await classifier.defaults.apply([{ after: { kind: 'filter_default', key: 'firewall/default', accept: true } }])
  const { driver, sweep } = await openBalancer({
    root,
    route,
    attaching: await openAttaching({ onProblem }),
    onProblem,
  })
  try {
    await driver.apply([
      { after: vip('nat', VIPS.nat, INSIDE) },
      { after: vip('direct', VIPS.direct, BESIDE, { dsr: true }) },
      { after: vip('turn', VIPS.turn, OTHER, { algorithm: 'round-robin' }) },
      { after: vip('wrapped', VIPS.wrapped, FAR, { dsr: true }) },
    ])
    await measure(root, report)
    const since = performance.now()
    await sweep()
    report({ figure: 'sweep', value: performance.now() - since, unit: 'ms', goal: 150, note: 'of a full table' })
    await rings(driver, (backends) => vip('hundred', '203.0.113.4', '', { backends }), report)
  } finally {
    await driver.close()
    await classifier.close()
    await route.close()
    for (const name of ['lb', 'firewall']) rmSync(join(root, name), { recursive: true, force: true })
    run(`umount ${root}`)
    rmdirSync(root)
  }
}

interface Lane {
  name: string
  /** In `walked`: nothing, floor, floor and hash, load balancer, load balancer in a flood. */
  slot: 0 | 1 | 2 | 3 | 4
  frame: Buffer
  clients: number
  ends: { address: number; port: number }
  /** enum tc_act: what it must answer. */
  verdict: number
  /** Runs before the first round. */
  warm?: number
  /** Goes on with connections that stand. */
  established?: true
}

const REDIRECT = 7
const NEXT = 0xffffffff

function lanes(): Lane[] {
  const to = (address: string, flags = ACK) => segment([CLIENT, 5000], [address, 80], flags, 'up0')
  const other = segment([CLIENT, 5000], ['192.0.2.9', 443], ACK, 'up0')
  const back = segment([INSIDE, 8080], [CLIENT, 5000], ACK, 'br-work')
  const lane = (name: string, slot: Lane['slot'], frame: Buffer, clients: number, verdict: number): Lane => {
    return { name, slot, frame, clients, verdict, ends: SOURCE }
  }
  const established = [1, 4096, 65_536, 131_072].map((n): Lane => {
    return { ...lane(`nat_${n}`, 3, to(VIPS.nat), n, REDIRECT), established: true }
  })
  return [
    lane('nothing', 0, to(VIPS.nat), 1, 0),
    lane('floor', 1, to(VIPS.nat), 1, 0),
    lane('floor_hash', 2, to(VIPS.nat), 1, 0),
    lane('other_pass', 3, other, 1, NEXT),
    ...established,
    lane('direct_1', 3, to(VIPS.direct), 1, REDIRECT),
    { ...lane('nat_back_1', 3, back, 1, REDIRECT), ends: DEST },
    { ...lane('syn_in_flood', 4, to(VIPS.direct, SYN), 1 << 24, REDIRECT) },
    { ...lane('new_evicting', 3, to(VIPS.turn, SYN), 1 << 24, REDIRECT), warm: 200_000 },
  ]
}

/** The handshakes of so many clients, of which each part is known no longer than it takes; ns of one. */
async function establish(play: (lane: Lane, repeat: number, turn?: number) => Promise<number>, clients: number) {
  const part = Math.min(clients, 8192)
  const lane = { slot: 3, clients, verdict: REDIRECT } as const
  const open = segment([CLIENT, 5000], [VIPS.nat, 80], SYN, 'up0')
  const answer = segment([INSIDE, 8080], [CLIENT, 5000], SYN | ACK, 'br-work')
  const goOn = segment([CLIENT, 5000], [VIPS.nat, 80], ACK, 'up0')
  const took: number[] = []
  for (let turn = 0; turn < clients; turn += part) {
    const each = [
      await play({ ...lane, name: 'open', frame: open, ends: SOURCE }, part, turn),
      await play({ ...lane, name: 'nat_back', frame: answer, ends: DEST }, part, turn),
      await play({ ...lane, name: 'go_on', frame: goOn, ends: SOURCE }, part, turn),
    ]
    took.push(each.reduce((sum, one) => sum + one, 0))
  }
  return quantile(took, 0.5)
}

async function measure(root: string, report: Report): Promise<void> {
  const load = async (openings: number) => {
    const limit = Buffer.alloc(4)
    limit.writeUInt32LE(openings)
    const object = openObject(BALANCER_OBJECT, { ...pinsOf(root), rodata: { lb_hz: ticks(), lb_openings: limit } })
    await object.load()
    return object
  }
  const [calm, flooded] = [await load(0xffffffff), await load(0)]
  const props = openObject(WALK_OBJECT)
  await props.load()
  const walked = props.map('walked', u32, u32)
  const programs = [
    props.program('nothing'),
    props.program('floor_read'),
    props.program('floor_hash'),
    calm.program('lb_in'),
    flooded.program('lb_in'),
  ]
  for (const [slot, { fd }] of programs.entries()) walked.set(slot, fd)
  const walks = props.map('walks', u32, walk)
  const ifindex = (name: string) => Number(/^([0-9]+):/.exec(String(run(`ip -o link show dev ${name}`)))?.[1])
  const index = { up0: ifindex('up0'), 'br-work': ifindex('br-work') }
  const play = async ({ frame, slot, clients, ends, verdict, name }: Lane, repeat: number, turn = 0) => {
    // Clients of whom nothing is known are other ones each time.
    const first = clients > 1 << 23 ? Math.floor(Math.random() * clients) : turn
    walks.set(0, { frame, slot, clients, turn: first, ...ends })
    const ctx = Buffer.alloc(192)
    ctx.writeUInt32LE(name.startsWith('nat_back') ? index['br-work'] : index.up0, 40)
    const { retval, durationNs } = await runProgram(props.program('walk').fd, { data: frame, ctx, repeat })
    if (retval !== verdict) throw new Error(`${name} answered ${retval | 0}, not ${verdict | 0}`)
    return durationNs
  }
  const all = lanes()
  const costs = new Map(all.map(({ name }) => [name, [] as number[]]))
  for (const lane of all) {
    if (lane.established) await establish(play, lane.clients)
    await play(lane, Math.max(2, (lane.warm ?? 1) * 2))
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const lane of all)
      costs.get(lane.name)?.push(await play(lane, REPEAT * (lane.established && lane.clients > 4096 ? 4 : 1)))
  }
  const [none, hash] = ['nothing', 'floor_hash'].map((name) => quantile(costs.get(name) ?? [], 0.5))
  const net = (name: string) => quantile(costs.get(name) ?? [], 0.5) - (none ?? 0)
  const floor = (hash ?? 0) - (none ?? 0)
  const katran = floor * 5.5
  const goals: Record<string, number> = {
    other_pass: Math.min(45, Math.round(floor * 2.3)),
    nat_1: Math.min(75, Math.round(katran * 0.65)),
    direct_1: Math.min(65, Math.round(katran * 0.6)),
    syn_in_flood: 80,
    new_evicting: 800,
  }
  for (const { name } of all) {
    const goal = goals[name]
    const least = quantile(costs.get(name) ?? [], 0) - (none ?? 0)
    const note = name === 'nothing' ? `by itself: ${spread(costs.get(name) ?? [])}` : `least ${least}`
    report({ figure: name, value: net(name), unit: 'ns', ...(goal !== undefined && { goal }), note })
  }
  const shakes: number[] = []
  for (let round = 0; round < ROUNDS; round++) shakes.push((await establish(play, 8192)) - 3 * (none ?? 0))
  report({ figure: 'handshake', value: quantile(shakes, 0.5), unit: 'ns', note: 'three packets, of known clients' })
  await wrapped(report, (frame) => {
    const ctx = Buffer.alloc(192)
    ctx.writeUInt32LE(index.up0, 40)
    return runProgram(calm.program('lb_in').fd, { data: frame, ctx })
  })
  props.close()
  calm.close()
  flooded.close()
}

/** One packet a run, since the kernel wraps none twice; so only the ratio says something. */
async function wrapped(report: Report, once: (frame: Buffer) => Promise<{ durationNs: number }>): Promise<void> {
  const lanes = { direct: [] as number[], wrapped: [] as number[] }
  const to = (name: keyof typeof lanes) => segment([CLIENT, 5000], [VIPS[name], 80], ACK, 'up0')
  for (let round = 0; round < SINGLES; round++) {
    for (const name of ['direct', 'wrapped'] as const) lanes[name].push((await once(to(name))).durationNs)
  }
  const ratio = quantile(lanes.wrapped, 0.5) / quantile(lanes.direct, 0.5)
  report({ figure: 'ipip_of_direct', value: ratio, unit: 'x', note: 'single runs, that of the clock included' })
}
