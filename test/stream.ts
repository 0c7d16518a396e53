/** A numbered stream of frames out of a guest, as fast as one process sends, and what came of it at another. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { frame } from './frames.ts'
import type { Guest } from './workload.ts'

/** Marks the frames of streams. */
export const MARK = Buffer.from('strt')
const SENDER = fileURLToPath(new URL('../dataplane/bpf/port/test/sender.js', import.meta.url))
/** The sender writes the number here, behind the mark. */
const NUMBER_AT = 46

export interface Stream {
  /** Ends it; resolves to how many frames were sent. */
  end(): Promise<number>
}

/** Sends frames from each of `macs` in turn, to `to` (default: broadcast), until `end` or the test is over. */
export function stream(
  from: Guest,
  macs: readonly string[],
  { to, most = 1e9 }: { to?: string; most?: number } = {},
): Stream {
  const payload = Buffer.alloc(NUMBER_AT - 14 + 4)
  MARK.copy(payload, NUMBER_AT - 14 - MARK.length)
  const frames = macs.map((mac) => frame({ from: mac, ...(to && { to }) }, payload).toString('hex'))
  const index = /^([0-9]+):/.exec(from.ns.run('ip', '-o', 'link', 'show', 'dev', 'eth0'))?.[1] ?? ''
  // On one CPU: from two, frames could overtake each other.
  const args = ['-c', '0', process.execPath, SENDER, index, String(most), ...frames]
  const sender: ChildProcess = from.ns.spawn('taskset', args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const output: Buffer[] = []
  sender.stdout?.on('data', (chunk: Buffer) => output.push(chunk))
  const ended = once(sender, 'close')
  return {
    async end() {
      sender.stdin?.end()
      await ended
      return Number(Buffer.concat(output).toString())
    },
  }
}

type Direction = 'rx' | 'tx'

/** Frames that have come in at the guest's device so far (`rx`), or gone out by it, of whatever kind. */
export function counted({ ns }: Guest, direction: Direction = 'rx'): number {
  const links: { stats64: Record<Direction, { packets: number }> }[] = JSON.parse(
    ns.run('ip', '-j', '-s', 'link', 'show', 'eth0'),
  )
  return links[0]?.stats64[direction].packets ?? 0
}

/** Resolves when `count` more have. */
export async function flows(guest: Guest, count: number, direction: Direction = 'rx'): Promise<void> {
  const end = counted(guest, direction) + count
  const signal = AbortSignal.timeout(20_000)
  while (counted(guest, direction) < end) {
    signal.throwIfAborted()
    await new Promise((wait) => setTimeout(wait, 5))
  }
}
