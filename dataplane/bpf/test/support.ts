/** What the tests of the BPF driver share: a bpf filesystem of their own, the probe object, packets, interfaces. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Scope } from '../../../test/netns.ts'
import { type Attaching, openAttaching } from '../attach/attaching.ts'
import { ensureBpffs, layoutDir } from '../bpffs.ts'
import type { Codec } from '../codec.ts'
import { u32, u64 } from '../codec.ts'
import { type BpfObject, type ObjectOptions, openObject } from '../object.ts'

/** An empty directory, removed at the end. */
export function emptyDir(t: Scope): string {
  const dir = mkdtempSync(join(tmpdir(), 'stratum-bpf-'))
  t.teardown(() => rmdirSync(dir))
  return dir
}

/** Root of a bpf filesystem of the test's own, unmounted at the end. */
export function bpffs(t: Scope): string {
  const root = emptyDir(t)
  ensureBpffs(root)
  t.teardown(() => execFileSync('umount', [root]))
  return root
}

/** How programs are attached in this process's namespace: as the kernel can, or by clsact with STRATUM_ATTACH=clsact. */
export async function attachingHere(t: Scope): Promise<Attaching> {
  const onProblem = (error: unknown) => {
    throw error
  }
  const attaching = await openAttaching({
    ...(process.env.STRATUM_ATTACH === 'clsact' && { form: 'clsact' }),
    onProblem,
  })
  t.teardown(() => attaching.close())
  return attaching
}

/** Path of an object that the build made of `<name>.bpf.c` in this folder. */
export function objectPath(name: string): string {
  return fileURLToPath(new URL(`./${name}.bpf.o`, import.meta.url))
}

/** The loaded probe, or another object, its maps pinned below `pinDir`, else in a bpf filesystem of its own; closed at the end. */
export async function loadProbe(t: Scope, options: ObjectOptions = {}, name = 'probe'): Promise<BpfObject> {
  const pinDir = options.pinDir ?? layoutDir(bpffs(t))
  const probe = openObject(objectPath(name), { ...options, pinDir })
  t.teardown(() => probe.close())
  await probe.load()
  return probe
}

/** Reads one of the four counters of the probe. */
export function counter(probe: BpfObject, which: number): number {
  return Number(probe.map('counts', u32, u64).get(which))
}

export interface Flow {
  packets: number
  port: number
  bytes: bigint
}

/** struct flow of probe.bpf.c */
export const flow: Codec<Flow> = {
  size: 16,
  encode(into, at, { packets, port, bytes }) {
    into.writeUInt32LE(packets, at)
    into.writeUInt32LE(port, at + 4)
    into.writeBigUInt64LE(bytes, at + 8)
  },
  decode: (from, at) => ({
    packets: from.readUInt32LE(at),
    port: from.readUInt32LE(at + 4),
    bytes: from.readBigUInt64LE(at + 8),
  }),
}

/** An Ethernet frame of the IPv4 type with nothing in it. */
export function frame(length = 64): Buffer {
  const data = Buffer.alloc(length)
  data.writeUInt16BE(0x0800, 12)
  return data
}

/** struct __sk_buff with a mark. */
export function skb(mark: number): Buffer {
  const context = Buffer.alloc(192)
  context.writeUInt32LE(mark, 8)
  return context
}

/** Runs a command in this process's namespace; its error text stands in the thrown error. */
export function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 30_000 })
}

/** Index of an interface of this process's namespace. */
export function ifindex(name: string): number {
  const index = Number(/^([0-9]+):/.exec(run('ip', '-o', 'link', 'show', 'dev', name))?.[1])
  if (!(index > 0)) throw new Error(`no index of ${name}`)
  return index
}
