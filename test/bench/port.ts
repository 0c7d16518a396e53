/**
 * What the programs on the ports of br-work cost a frame, above a program that only reads it. Each runs on frames of
 * all bound stations in turn (`walk` of dataplane/bpf/test/stage.bpf.c), in interleaved rounds, by CPU time.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBpffs, layoutDir } from '../../dataplane/bpf/bpffs.ts'
import { u32 } from '../../dataplane/bpf/codec.ts'
import { type BpfObject, openObject } from '../../dataplane/bpf/object.ts'
import { ipv4 } from '../../dataplane/bpf/port/layout.ts'
import { HOOKS, PORT_OBJECT, type PortMaps, portMaps } from '../../dataplane/bpf/port/maps.ts'
import { PortTable } from '../../dataplane/bpf/port/ports.ts'
import { SlotTable } from '../../dataplane/bpf/port/slot_table.ts'
import { struct } from '../../dataplane/bpf/port/struct.ts'
import { runProgram } from '../../dataplane/bpf/test_run.ts'
import { LOCK_SOFT, SETTING_LOCK, SETTING_MACBIND, STAMP } from '../../dataplane/numbers.ts'
import { quantile, type Report, spread } from './figure.ts'

const STAGE_OBJECT = fileURLToPath(new URL('../../dataplane/bpf/test/stage.bpf.o', import.meta.url))

export const NET = 1
/** Interfaces: senders, receivers, a port that belongs to nobody. */
export const INTERFACES = { sender: 101, receiver: 102, open: 103 } as const
/** Half of them send, and to the other half: two are one pair. */
const BINDINGS = [2, 1000, 65_536] as const
const ROUNDS = 11
const REPEAT = 100_000

export const FLOOR = 8
const STUB = 9
const EMPTY_FRAME = Buffer.alloc(60)
EMPTY_FRAME.writeUInt16BE(0x0800, 12)
EMPTY_FRAME[14] = 0x45

const walker = struct<{ slot: number; mark: number; pairs: number; turn: number }>('walker', 16, {
  slot: [0, u32],
  mark: [4, u32],
  pairs: [8, u32],
  turn: [12, u32],
})

interface Pair {
  to: Buffer
  from: Buffer
  address: string
}
const pair = {
  size: 16,
  encode(into: Buffer, at: number, { to, from, address }: Pair) {
    to.copy(into, at)
    from.copy(into, at + 6)
    ipv4.encode(into, at + 12, address)
  },
  decode(): Pair {
    throw new Error('pairs are only written')
  },
}

const address = (n: number) => `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`
const station = (n: number) => Buffer.from([2, 0xce, 10, (n >> 16) & 255, (n >> 8) & 255, n & 255])
const text = (bytes: Buffer) => bytes.toString('hex').replace(/(..)(?!$)/g, '$1:')

export interface Lane {
  name: string
  /** Of the program in `staged`. */
  slot: number
  ifindex: number
  mark: number
  /** What it must answer, or the figure is of something else. */
  verdict: number
  /** Bindings of MACs exist. */
  macbind?: number
  /** The frames are of stations that nobody has bound. */
  strangers?: boolean
}

/** linux/bpf.h */
const TCX_NEXT = 0xffffffff
const TCX_REDIRECT = 7

export interface Rig {
  maps: PortMaps
  props: BpfObject
  /** Nanoseconds of CPU time a frame. The event loop sleeps meanwhile. */
  run(lane: Lane, pairs: number, repeat?: number): Promise<number>
}

export const port = (report: Report): Promise<void> => onStage((rig) => measure(rig, report))

/** Loads the programs and makes the interfaces; gone when `work` has ended. */
export async function onStage(work: (rig: Rig) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'stratum-bench-'))
  ensureBpffs(root)
  const lines = Object.entries(INTERFACES).map(([name, index]) => `link add name ${name} index ${index} type ifb\n`)
  execFileSync('ip', ['-batch', '-'], { input: lines.join('') })
  const objects: BpfObject[] = []
  try {
    const load = async (path: string) => {
      const object = openObject(path, { pinDir: layoutDir(root) })
      await object.load()
      objects.push(object)
      return object
    }
    await work(rig(await load(PORT_OBJECT), await load(STAGE_OBJECT)))
  } finally {
    for (const object of objects) object.close()
    execFileSync('umount', [root])
    rmdirSync(root)
  }
}

function rig(object: BpfObject, props: BpfObject): Rig {
  const staged = props.map('staged', u32, u32)
  for (const [hook, slot] of Object.entries(HOOKS)) staged.set(slot, object.program(hook).fd)
  staged.set(FLOOR, props.program('parse_only').fd)
  staged.set(STUB, object.program('hook_port_in').fd)
  const maps = portMaps(object)
  maps.programs.set(HOOKS.port_in, object.program('port_in').fd)
  const walkers = props.map('walkers', u32, walker)
  const walk = props.program('walk').fd
  const context = Buffer.alloc(192)
  return {
    maps,
    props,
    async run({ name, slot, ifindex, mark, verdict }, pairs, repeat = REPEAT) {
      walkers.set(0, { slot, mark, pairs, turn: 0 })
      context.writeUInt32LE(ifindex, 40)
      const before = process.cpuUsage()
      const { retval } = await runProgram(walk, { data: EMPTY_FRAME, ctx: context, repeat })
      const { user, system } = process.cpuUsage(before)
      if (retval !== verdict) throw new Error(`${name} answered ${retval} instead of ${verdict}`)
      return ((user + system) * 1000) / repeat
    },
  }
}

/** Adds stations up to `to`; even ones send from `sender`, odd ones are at `receiver`. */
export async function bind({ maps }: Rig, from: number, to: number): Promise<void> {
  const numbers = Array.from({ length: to - from }, (_, n) => from + n)
  const slots = new SlotTable(maps.slots)
  for (const n of numbers) slots.bind(n, { mac: text(station(n)), routed: false })
  slots.close()
  await maps.byMac.updateBatch(
    numbers.map((n) => [
      { net: NET, mac: text(station(n)) },
      { address: address(n), claims: 0, home: n % 2 ? INTERFACES.receiver : INTERFACES.sender, slot: n },
    ]),
  )
  await maps.netOfMac.updateBatch(numbers.map((n) => [text(station(n)), NET]))
}

/** Frames from each even station to its odd neighbour; with `strangers`, of stations that nobody has bound. */
export async function cast({ props }: Rig, bindings: number, strangers: boolean): Promise<void> {
  const pairs = props.map('pairs', u32, pair)
  await pairs.updateBatch(
    Array.from({ length: bindings / 2 }, (_, n): [number, Pair] => {
      const [from, to] = [station(2 * n), station(2 * n + 1)]
      if (!strangers) return [n, { to, from, address: address(2 * n) }]
      for (const one of [from, to]) one[1] = 0xaa
      return [n, { to, from, address: `198.18.${(n >> 8) & 255}.${n & 255}` }]
    }),
  )
}

async function measure(rig: Rig, report: Report): Promise<void> {
  const { sender, receiver, open } = INTERFACES
  const ports = new PortTable(rig.maps.ports)
  for (const ifindex of [sender, receiver]) ports.set(ifindex, NET)
  ports.set(open, 0)
  ports.close()
  rig.maps.privateRanges.set({ address: '10.0.0.0', length: 8 }, 1)
  const cost = new Map<string, number>()
  let bound = 0
  for (const bindings of BINDINGS) {
    await bind(rig, bound, bindings)
    bound = bindings
    const samples = await sample(rig, bindings)
    const quartile = (name: string) => quantile(samples.get(name) ?? [], 0.25)
    report({
      figure: `floor_${label(bindings)}`,
      value: quartile('floor'),
      unit: 'ns',
      note: spread(samples.get('floor') ?? []),
    })
    for (const { name } of LANES.slice(1)) {
      const value = quartile(name) - quartile('floor')
      cost.set(`${name}_${bindings}`, value)
      const goal = bindings === 1000 ? GOALS[name] : undefined
      report({ figure: `${name}_${label(bindings)}_over_floor`, value, unit: 'ns', ...(goal && { goal }) })
    }
  }
  const ratio = (a: number, b: number) => (cost.get(`in_${a}`) ?? 0) / (cost.get(`in_${b}`) ?? 1)
  report({ figure: 'in_1k_over_2', value: ratio(1000, 2), unit: 'times', goal: 1.3 })
  const note = 'each frame of other stations: what caches miss'
  report({ figure: 'in_65k_over_1k', value: ratio(65_536, 1000), unit: 'times', goal: 6, note })
}

/** Nanoseconds a frame by lane, one value a round; the lanes take turns. */
async function sample(rig: Rig, bindings: number): Promise<Map<string, number[]>> {
  const samples = new Map(LANES.map(({ name }) => [name, [] as number[]]))
  for (const strangers of [false, true]) {
    await cast(rig, bindings, strangers)
    const here = LANES.filter((lane) => lane.name === 'floor' || (lane.strangers ?? false) === strangers)
    for (let round = -1; round < ROUNDS; round++) {
      for (const lane of here) {
        const { name, macbind = 0 } = lane
        rig.maps.settings.set(SETTING_MACBIND, macbind)
        rig.maps.settings.set(SETTING_LOCK, macbind ? LOCK_SOFT : 0)
        const ns = await rig.run(lane, bindings / 2)
        if (round >= 0) samples.get(name)?.push(ns)
      }
    }
  }
  return samples
}

export const INCOMING = { slot: HOOKS.port_in, ifindex: INTERFACES.sender, mark: 0, verdict: TCX_REDIRECT }
const LANES: readonly Lane[] = [
  { name: 'floor', slot: FLOOR, ifindex: INTERFACES.sender, mark: 0, verdict: TCX_NEXT },
  { name: 'in', ...INCOMING },
  { name: 'in_by_stub', ...INCOMING, slot: STUB },
  { name: 'in_macbind', ...INCOMING, macbind: 1 },
  { name: 'out', slot: HOOKS.port_out, ifindex: INTERFACES.receiver, mark: STAMP + NET, verdict: TCX_NEXT },
  { name: 'in_open', ...INCOMING, ifindex: INTERFACES.open, verdict: TCX_NEXT, strangers: true },
]

/** Nanoseconds above the floor with 1000 bindings. */
const GOALS: Readonly<Record<string, number>> = { in: 130, out: 75 }

function label(bindings: number): string {
  return bindings >= 1000 ? `${Math.floor(bindings / 1000)}k` : String(bindings)
}
