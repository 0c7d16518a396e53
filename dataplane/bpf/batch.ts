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

/** Entries as they stand in memory: `count` keys and values one behind the other. */
export interface Chunk {
  keys: Buffer
  values: Buffer
  count: number
}

/** All entries, at most about `size` at a time. A chunk is overwritten by the next one. */
export async function* lookupChunks(
  fd: number,
  { keySize, valueSize }: { keySize: number; valueSize: number },
  what: string,
  size: number = CHUNK,
): AsyncGenerator<Chunk> {
  // Where to go on: a bucket number in hash maps, a key in others.
  let from: Buffer | null = null
  let [keys, values] = [Buffer.alloc(size * keySize), Buffer.alloc(size * valueSize)]
  for (let ended = false; !ended; ) {
    const next: Buffer = Buffer.alloc(Math.max(4, keySize))
    const count = Uint32Array.of(keys.length / keySize)
    const result = await libbpf().lookupBatch(fd, from, next, keys, values, count, null)
    if (result === -ENOSPC) {
      // One bucket of the hash map alone is larger than the chunk.
      ;[keys, values] = [Buffer.alloc(keys.length * 2), Buffer.alloc(values.length * 2)]
      continue
    }
    ended = result === -ENOENT
    if (result < 0 && !ended) throw new KernelError(-result, `cannot read ${what}`)
    yield { keys, values, count: counted(count) }
    from = next
  }
}

export async function lookupBatch<K, V>(fd: number, key: Codec<K>, value: Codec<V>, what: string): Promise<[K, V][]> {
  const found: [K, V][] = []
  for await (const { keys, values, count } of lookupChunks(fd, { keySize: key.size, valueSize: value.size }, what)) {
    for (let n = 0; n < count; n++) found.push([key.decode(keys, n * key.size), value.decode(values, n * value.size)])
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
