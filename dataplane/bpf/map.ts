/**
 * BPF maps as typed tables. Single entries are read and written synchronously, which takes 1 to 2 µs; whatever copies
 * many entries or makes the kernel wait for an RCU grace period runs on the pool.
 */
import { closeSync } from 'node:fs'
import { KernelError } from '../libc.ts'
import { type Chunk, deleteBatch, lookupBatch, lookupChunks, updateBatch } from './batch.ts'
import type { Codec } from './codec.ts'
import { checked, type Libbpf, libbpf } from './libbpf.ts'
import { mapOptions } from './structs.ts'

/** enum bpf_map_type of linux/bpf.h, as far as maps are made at run time. */
export const MAP_TYPE = { hash: 1, array: 2, lruHash: 9, lpmTrie: 11 } as const

/** BPF_MAP_TYPE_PERCPU_HASH, _PERCPU_ARRAY and _LRU_PERCPU_HASH */
const PER_CPU_TYPES: ReadonlySet<number> = new Set([5, 6, 10])

/** Map flag that a longest-prefix-match trie needs (BPF_F_NO_PREALLOC). */
export const NO_PREALLOC = 1

/** BPF_ANY, BPF_NOEXIST and BPF_EXIST. */
const UPDATE_FLAGS = { always: 0, new: 1, existing: 2 } as const
/** Which state of the key an update asks for. */
export type When = keyof typeof UPDATE_FLAGS

/** asm-generic/errno-base.h */
const ENOENT = 2

export interface MapInfo {
  type: number
  /** The kernel's number of the map, which no other has until the next reboot. */
  id: number
  name: string
  keySize: number
  /** Per CPU, in a per-CPU map. */
  valueSize: number
  maxEntries: number
  flags: number
}

export interface MapShape<K, V> {
  /** At most 15 characters of `[A-Za-z0-9_.]`. */
  name: string
  type: (typeof MAP_TYPE)[keyof typeof MAP_TYPE]
  maxEntries: number
  key: Codec<K>
  value: Codec<V>
  /** An inner map needs those of its declaration. Default 0. */
  flags?: number
}

export class BpfMap<K, V> {
  readonly info: MapInfo
  readonly #owned: boolean
  readonly #key: Codec<K>
  readonly #value: Codec<V>
  readonly #lib: Libbpf
  readonly #keyBytes: Buffer
  readonly #valueBytes: Buffer
  #fd: number

  /** Throws when the codecs do not fit the kernel's map; an owned `fd` is then closed. */
  constructor(fd: number, key: Codec<K>, value: Codec<V>, ownership: 'owned' | 'borrowed') {
    this.#fd = fd
    this.#owned = ownership === 'owned'
    this.#key = key
    this.#value = value
    this.#lib = libbpf()
    try {
      this.info = mapInfo(fd)
      requireLayout(this.info, key.size, value.size)
    } catch (error) {
      this.close()
      throw error
    }
    this.#keyBytes = Buffer.alloc(key.size)
    this.#valueBytes = Buffer.alloc(value.size)
  }

  /** The descriptor, as which an inner map is given to a map of maps; -1 once closed. */
  get fd(): number {
    return this.#fd
  }

  /** The value of `key`, undefined when there is none. Elements of arrays are always there. */
  get(key: K): V | undefined {
    this.#key.encode(this.#keyBytes, 0, key)
    return this.#read(this.#keyBytes)
  }

  /** Throws E2BIG when the map is full, EEXIST or ENOENT when `when` is not met. */
  set(key: K, value: V, when: When = 'always'): void {
    this.#key.encode(this.#keyBytes, 0, key)
    this.#value.encode(this.#valueBytes, 0, value)
    const result = this.#lib.update(this.#fd, this.#keyBytes, this.#valueBytes, UPDATE_FLAGS[when])
    if (result < 0) throw this.#failure(result, 'set an entry of')
  }

  /** False when there was no such key. Throws EINVAL on arrays, which cannot lose an element. */
  delete(key: K): boolean {
    this.#key.encode(this.#keyBytes, 0, key)
    const result = this.#lib.remove(this.#fd, this.#keyBytes)
    if (result < 0 && result !== -ENOENT) throw this.#failure(result, 'delete an entry of')
    return result === 0
  }

  /**
   * `set` on the pool, for maps whose update waits for running programs: in a map of maps the value is the descriptor
   * of the inner map, and once this resolves no program uses the one it replaced. (Read back, the value is an id.)
   */
  async swap(key: K, value: V): Promise<void> {
    const keyBytes = Buffer.alloc(this.#key.size)
    const valueBytes = Buffer.alloc(this.#value.size)
    this.#key.encode(keyBytes, 0, key)
    this.#value.encode(valueBytes, 0, value)
    const result = await this.#lib.updateLater(this.#fd, keyBytes, valueBytes, UPDATE_FLAGS.always)
    if (result < 0) throw this.#failure(result, 'swap an entry of')
  }

  /**
   * Every entry, one kernel call each: for small maps; `lookupBatch` reads large ones. The entry just given may be
   * deleted. When others delete meanwhile, entries may come twice; never more than the map can hold.
   */
  *entries(): Generator<[K, V]> {
    let next = this.#following(null)
    for (let left = this.info.maxEntries; next !== undefined && left > 0; left--) {
      const current = next
      const value = this.#read(current)
      next = this.#following(current)
      if (value !== undefined) yield [this.#key.decode(current, 0), value]
    }
  }

  /** All entries of a large map; not a snapshot when the map changes meanwhile. */
  lookupBatch(): Promise<[K, V][]> {
    return lookupBatch(this.#fd, this.#key, this.#value, this.#describe())
  }

  /** The same as bytes, about `size` entries at a time, for what would take too long as objects. Each overwrites the last. */
  lookupChunks(size: number): AsyncGenerator<Chunk> {
    return lookupChunks(this.#fd, { keySize: this.#key.size, valueSize: this.#value.size }, this.#describe(), size)
  }

  /** Sets many entries, in order. Not atomic: on failure the error says how many were set. */
  updateBatch(entries: Iterable<readonly [K, V]>): Promise<void> {
    return updateBatch(this.#fd, this.#key, this.#value, entries, this.#describe())
  }

  /** Deletes many keys; those that are not there are passed over. */
  deleteBatch(keys: Iterable<K>): Promise<void> {
    return deleteBatch(this.#fd, this.#key, keys, this.#describe())
  }

  /** Pins the map so that it outlives the process. Throws EEXIST when the path is taken. */
  pin(path: string): void {
    checked(this.#lib.pin(this.#fd, path), `pin ${this.#describe()} at ${path}`)
  }

  /** Ends the handle; the map itself lives on while it is pinned or used by a program. */
  close(): void {
    if (this.#owned && this.#fd >= 0) closeSync(this.#fd)
    this.#fd = -1
  }

  #read(key: Buffer): V | undefined {
    const result = this.#lib.lookup(this.#fd, key, this.#valueBytes)
    if (result === -ENOENT) return undefined
    if (result < 0) throw this.#failure(result, 'look up an entry of')
    return this.#value.decode(this.#valueBytes, 0)
  }

  /** The key behind `key` in a buffer of its own, or the first one; undefined at the end. */
  #following(key: Buffer | null): Buffer | undefined {
    const next = Buffer.alloc(this.#key.size)
    const result = this.#lib.nextKey(this.#fd, key, next)
    if (result === -ENOENT) return undefined
    if (result < 0) throw this.#failure(result, 'walk through')
    return next
  }

  #failure(result: number, what: string): KernelError {
    return new KernelError(-result, `cannot ${what} ${this.#describe()}`)
  }

  #describe(): string {
    return `map ${this.info.name} (${this.info.maxEntries} entries at most)`
  }
}

/** Opens a pinned map. Throws ENOENT, or the layout error when the codecs do not fit. Close it. */
export function openMap<K, V>(path: string, key: Codec<K>, value: Codec<V>): BpfMap<K, V> {
  return new BpfMap(checked(libbpf().openPin(path), `open the map pinned at ${path}`), key, value, 'owned')
}

/** Makes a new empty map, such as the next inner map of a map of maps. Close it. */
export function createMap<K, V>(shape: MapShape<K, V>): BpfMap<K, V> {
  const { name, type, maxEntries, key, value, flags = 0 } = shape
  const fd = libbpf().createMap(type, name, key.size, value.size, maxEntries, mapOptions(flags))
  return new BpfMap(checked(fd, `create map ${name}`), key, value, 'owned')
}

/** The same off the event loop, which a map of many megabytes would hold up. */
export async function createMapLater<K, V>(shape: MapShape<K, V>): Promise<BpfMap<K, V>> {
  const { name, type, maxEntries, key, value, flags = 0 } = shape
  const fd = await libbpf().createMapLater(type, name, key.size, value.size, maxEntries, mapOptions(flags))
  return new BpfMap(checked(fd, `create map ${name}`), key, value, 'owned')
}

/** Number of CPUs that per-CPU maps have room for, which can be more than there are. */
export function possibleCpus(): number {
  return checked(libbpf().possibleCpus(), 'count the possible CPUs')
}

/** struct bpf_map_info of linux/bpf.h. */
export function mapInfo(fd: number): MapInfo {
  const info = Buffer.alloc(80)
  checked(libbpf().info(fd, info, Uint32Array.of(info.length)), 'read the description of a map')
  return {
    type: info.readUInt32LE(0),
    id: info.readUInt32LE(4),
    keySize: info.readUInt32LE(8),
    valueSize: info.readUInt32LE(12),
    maxEntries: info.readUInt32LE(16),
    flags: info.readUInt32LE(20),
    name: info.toString('latin1', 24, info.indexOf(0, 24)),
  }
}

/** A codec of another size would make the kernel write past the buffer. */
function requireLayout(info: MapInfo, keySize: number, valueSize: number): void {
  const perCpu = PER_CPU_TYPES.has(info.type)
  const kernelSize = perCpu ? Math.ceil(info.valueSize / 8) * 8 * possibleCpus() : info.valueSize
  if (info.keySize === keySize && kernelSize === valueSize) return
  throw new Error(
    `map ${info.name} has keys of ${info.keySize} and values of ${kernelSize} bytes where this agent expects ` +
      `${keySize} and ${valueSize}: it was made by another version; raise BPF_LAYOUT in dataplane/numbers.ts`,
  )
}
