/** Runs a loaded program on a packet of the caller's, without any interface (BPF_PROG_TEST_RUN): for tests. */
import { checked, libbpf } from './libbpf.ts'
import { testRun } from './structs.ts'

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
    dataOut: Buffer.from(data_out.subarray(0, run.data_size_out)),
    ctxOut: Buffer.from(ctx_out?.subarray(0, run.ctx_size_out) ?? []),
    durationNs: run.duration,
  }
}
