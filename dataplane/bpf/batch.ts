/**
 * Many entries of a map in few kernel calls, on the pool. Entries are encoded and decoded a chunk at a time between the
 * calls, so that the event loop never stops for longer than one chunk takes.
 */
import { KernelError } from '../libc.ts'
import type { Codec } from './codec.ts'
import { libbpf } from './libbpf.ts'

/** Entries per call: 65,536 entries then take 16 calls, and a chunk of small entries stays below a millisecond. */
const CHUNK = 4096

/** asm-generic/errno-base.h */
const ENOENT = 2
const ENOSPC = 28
/** What the kernel answers for a type of map without batches, before it looks at the count. */
const ENOTSUPP = 524

export async function updateBatch<K, V>(
  fd: number,
  key: Codec<K>,
  value: Codec<V>,
  entries: Iterable<readonly [K, V]>,
  what: string,
): Promise<void> {
  const keys = Buffer.alloc(CHUNK * key.size)
  const values = Buffer.alloc(CHUNK * value.size)
  let done = 0
  for (const chunk of chunks(entries)) {
    chunk.forEach(([k, v], n) => {
      key.encode(keys, n * key.size, k)
      value.encode(values, n * value.size, v)
    })
    const count = Uint32Array.of(chunk.length)
    const result = await libbpf().updateBatch(fd, keys, values, count, null)
    if (result !== -ENOTSUPP) done += counted(count)
    if (result < 0) throw new KernelError(-result, `cannot set entries of ${what}: ${done} were set`)
  }
}

export async function lookupBatch<K, V>(fd: number, key: Codec<K>, value: Codec<V>, what: string): Promise<[K, V][]> {
  const found: [K, V][] = []
  // Where to go on: a bucket number in hash maps, a key in others.
  let from: Buffer | null = null
  let size = CHUNK
  for (let ended = false; !ended; ) {
    const keys: Buffer = Buffer.alloc(size * key.size)
    const values: Buffer = Buffer.alloc(size * value.size)
    const next: Buffer = Buffer.alloc(Math.max(4, key.size))
    const count = Uint32Array.of(size)
    const result = await libbpf().lookupBatch(fd, from, next, keys, values, count, null)
    if (result === -ENOSPC) {
      // One bucket of the hash map alone is larger than the chunk.
      size *= 2
      continue
    }
    ended = result === -ENOENT
    if (result < 0 && !ended) throw new KernelError(-result, `cannot read ${what}`)
    for (let n = 0; n < counted(count); n++)
      found.push([key.decode(keys, n * key.size), value.decode(values, n * value.size)])
    from = next
  }
  return found
}

export async function deleteBatch<K>(fd: number, key: Codec<K>, all: Iterable<K>, what: string): Promise<void> {
  const keys = Buffer.alloc(CHUNK * key.size)
  for (const chunk of chunks(all)) {
    chunk.forEach((k, n) => {
      key.encode(keys, n * key.size, k)
    })
    for (let done = 0; done < chunk.length; ) {
      const count = Uint32Array.of(chunk.length - done)
      const result = await libbpf().removeBatch(fd, keys.subarray(done * key.size), count, null)
      if (result < 0 && result !== -ENOENT) throw new KernelError(-result, `cannot delete entries of ${what}`)
      // The kernel stops at a key that is not there: go on behind it.
      done += counted(count) + (result === -ENOENT ? 1 : 0)
    }
  }
}

function* chunks<T>(all: Iterable<T>): Generator<T[]> {
  let chunk: T[] = []
  for (const one of all) {
    chunk.push(one)
    if (chunk.length < CHUNK) continue
    yield chunk
    chunk = []
  }
  if (chunk.length > 0) yield chunk
}

/** The one element of a count that the kernel wrote. */
function counted(count: Uint32Array): number {
  return count[0] ?? 0
}
