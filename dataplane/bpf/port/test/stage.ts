/**
 * The programs of br-work on a stage: loaded, their maps filled with a world, run on single packets. The process must
 * stand in a namespace of its own (test/inside.ts), in which the interfaces of the world are made.
 */
import { execFileSync } from 'node:child_process'
import type { Scope } from '../../../../test/netns.ts'
import { u32 } from '../../codec.ts'
import type { BpfObject } from '../../object.ts'
import { objectPath } from '../../test/support.ts'
import { runProgram } from '../../test_run.ts'
import { HOOKS, type Hook } from '../maps.ts'
import type { ReasonName } from '../reason.ts'
import { type Loaded, loadObject, loadPrograms } from './loaded.ts'
import { PORT } from './world.ts'

/** enum tcx_action_base of linux/bpf.h, and what `stage` says when there is no program. */
const VERDICTS: Readonly<Record<number, Verdict>> = { 4294967295: 'pass', 2: 'drop', 7: 'redirect' }
export type Verdict = 'pass' | 'drop' | 'redirect'

/** Offsets in struct __sk_buff of linux/bpf.h. */
const SKB = { size: 192, mark: 8, from: 36, ifindex: 40, cb: 48, gsoSize: 176 } as const

/** Below this length a frame is given padded, and cut to its own length on the stage. */
const WHOLE = 64
const wholeHeader = (data: Buffer) => (data.length < WHOLE ? Buffer.concat([data], WHOLE) : data)

export interface Packet {
  hook: Hook
  ifindex: number
  data: Buffer
  /** ifindex of the device that it came in by, where it leaves. */
  from?: number
  mark?: number
  /** Tag that stands beside the frame: EtherType << 16 | id. */
  beside?: number
  /** Payload of each segment of a frame that is still to be cut. */
  gsoSize?: number
}

export interface Played {
  verdict: Verdict
  /** What was tallied, in ascending order of the numbers of the reasons. */
  reasons: ReasonName[]
  /** ifindex, 0 unless redirected. */
  to: number
  mark: number
  beside: number
  data: Buffer
}

export interface Stage extends Loaded {
  readonly props: BpfObject
  run(packet: Packet): Promise<Played>
  /** The same without the reasons, which take longer to read than the run. */
  play(packet: Packet): Promise<Omit<Played, 'reasons'>>
}

/** Loads everything and makes the interfaces of the world; `t.teardown` undoes it. */
export async function stage(t: Scope): Promise<Stage> {
  const loaded = await loadPrograms(t)
  const props = await loadProps(t, loaded)
  const batch = (line: (name: string, index: number) => string) => {
    const input = Object.entries(PORT).map(([name, index]) => `${line(name, index)}\n`)
    execFileSync('ip', ['-batch', '-'], { input: input.join(''), stdio: ['pipe', 'ignore', 'inherit'] })
  }
  batch((name, index) => `link add name ${name} index ${index} type ifb`)
  t.teardown(() => batch((name) => `link del ${name}`))
  const fd = props.program('stage').fd
  /** The tallies, unless something has been played since. */
  let seen: Map<ReasonName, number> | undefined
  const play = async (packet: Packet) => {
    seen = undefined
    const output = await runProgram(fd, { data: wholeHeader(packet.data), ctx: context(packet) })
    const verdict = VERDICTS[output.retval]
    if (verdict === undefined) throw new Error(`${packet.hook} answered ${output.retval}`)
    return {
      verdict,
      to: output.ctxOut.readUInt32LE(SKB.cb + 8),
      mark: output.ctxOut.readUInt32LE(SKB.mark),
      beside: output.ctxOut.readUInt32LE(SKB.cb + 12),
      data: output.dataOut,
    }
  }
  return {
    ...loaded,
    props,
    play,
    async run(packet) {
      const before = seen ?? (await loaded.tallies())
      const played = await play(packet)
      const after = await loaded.tallies()
      seen = after
      return { ...played, reasons: [...after.keys()].filter((name) => after.get(name) !== before.get(name)) }
    },
  }
}

/** The programs of dataplane/bpf/test/stage.bpf.c, with those under test in `staged`. */
export async function loadProps(t: Scope, { object, pinDir }: Loaded): Promise<BpfObject> {
  const props = await loadObject(t, objectPath('stage'), pinDir)
  const staged = props.map('staged', u32, u32)
  for (const [hook, slot] of Object.entries(HOOKS)) staged.set(slot, object.program(hook).fd)
  return props
}

function context({ hook, ifindex, data, from = 0, mark = 0, beside = 0, gsoSize = 0 }: Packet): Buffer {
  const skb = Buffer.alloc(SKB.size)
  skb.writeUInt32LE(mark, SKB.mark)
  skb.writeUInt32LE(from, SKB.from)
  skb.writeUInt32LE(ifindex, SKB.ifindex)
  skb.writeUInt32LE(HOOKS[hook], SKB.cb)
  skb.writeUInt32LE(beside, SKB.cb + 4)
  if (data.length < WHOLE) skb.writeUInt32LE(data.length, SKB.cb + 16)
  skb.writeUInt32LE(gsoSize, SKB.gsoSize)
  return skb
}
