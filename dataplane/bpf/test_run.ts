/** Runs a loaded program on a packet of the caller's, without any interface (BPF_PROG_TEST_RUN): for tests. */
import koffi from 'koffi'
import { checked, libbpf } from './libbpf.ts'
import { liveRun, testRun } from './structs.ts'

/** By how many bytes a program may lengthen the packet. */
const ROOM = 512

export interface RunInput {
  /** The packet from its Ethernet header on, at least 14 bytes; from its IP header on for netfilter programs. */
  data: Uint8Array
  /** Bytes of the C context: struct __sk_buff (192), struct xdp_md (24) or struct nf_hook_state. */
  ctx?: Uint8Array
  /** The packet is not put back in between: above 1 only for programs that do not change it. Default 1. */
  repeat?: number
}

export interface RunOutput {
  /** What the program returned, as an unsigned number: TCX_NEXT (-1) is 4294967295. */
  retval: number
  dataOut: Buffer
  /** Empty when no context was given. */
  ctxOut: Buffer
  /** Average of one run, by the kernel's clock. */
  durationNs: number
}

/** Throws EINVAL when the packet or the context has a form that the program's type does not take. */
export async function runProgram(fd: number, input: RunInput): Promise<RunOutput> {
  const run = testRun(input.data, input.ctx ?? null, input.repeat ?? 1, ROOM)
  // koffi writes the counts back into `run`, but replaces its buffers by their addresses.
  const { data_out, ctx_out } = run
  checked(await libbpf().testRun(fd, run), 'run the program')
  return {
    retval: run.retval,
    dataOut: Buffer.from(data_out?.subarray(0, run.data_size_out) ?? []),
    ctxOut: Buffer.from(ctx_out?.subarray(0, run.ctx_size_out) ?? []),
    durationNs: run.duration,
  }
}

export interface LiveInput {
  /** What the program begins with; it makes of it what shall come in. */
  data: Uint8Array
  /** Device that the packets come in by, of the network namespace that this thread is in. */
  ifindex: number
  count: number
}

/** Packets that the kernel takes into the stack at a time, as a driver's poll does. */
const BATCH = 64

/**
 * Runs an XDP program `count` times; each packet that it passes goes into the stack and, where nothing else takes it over,
 * to its end, all on this thread. Returns the CPU time of that in ns. Throws EINTR when a signal came, after some of them.
 */
export function sendLive(fd: number, { data, ifindex, count }: LiveInput): number {
  const context = Buffer.alloc(24)
  context.writeUInt32LE(data.length, 4)
  context.writeUInt32LE(ifindex, 12)
  const run = liveRun(data, context, count, BATCH)
  const before = threadCpuNs()
  const result = libbpf().testRunHere(fd, run)
  const took = threadCpuNs() - before
  checked(result, 'send packets')
  return took
}

/** linux/time.h */
const CLOCK_THREAD_CPUTIME_ID = 3
const clockGettime: (clock: number, time: Uint8Array) => number = koffi
  .load(null)
  .func('int clock_gettime(int clock, void *time)')
const time = Buffer.alloc(16)

/** CPU time of the calling thread so far. A clock on the wall would tell of the neighbours. */
export function threadCpuNs(): number {
  clockGettime(CLOCK_THREAD_CPUTIME_ID, time)
  return Number(time.readBigInt64LE(0)) * 1e9 + Number(time.readBigInt64LE(8))
}
