/**
 * Array maps of 64-bit values seen as memory (BPF_F_MMAPABLE): a value is stored by one aligned machine instruction, so
 * that every program sees the old or the new one. An update through the kernel copies bytes and promises no such thing.
 *
 * What is stored by Atomics is seen after all that was stored before. A program that reads two values in an order that matters
 * must ask for it, as not every processor loads in the order of the program: bpf/src/order.h.
 */
import koffi from 'koffi'
import { KernelError } from '../libc.ts'
import type { BpfMap } from './map.ts'

const libc = koffi.load(null)
const mmap: (address: null, length: number, protection: number, flags: number, fd: number, offset: number) => bigint =
  libc.func('void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)')
const munmap: (address: bigint, length: number) => number = libc.func('int munmap(void *address, size_t length)')

/** sys/mman.h: PROT_READ | PROT_WRITE, MAP_SHARED, MAP_FAILED */
const READ_WRITE = 3
const SHARED = 1
const FAILED = 0xffff_ffff_ffff_ffffn

const WORD = 8

/** Memory that a map keeps its values in, and how to let go of it. */
export interface Mapping {
  buffer: ArrayBuffer
  unmap(): void
}

/** Maps the first `length` bytes of an array map. @throws KernelError EPERM or EINVAL when it is not BPF_F_MMAPABLE */
export function mapMemory(fd: number, length: number, name: string): Mapping {
  const address = mmap(null, length, READ_WRITE, SHARED, fd, 0)
  if (address === FAILED) throw new KernelError(koffi.errno(), `cannot map the memory of map ${name}`)
  return { buffer: koffi.view(address, length), unmap: () => void munmap(address, length) }
}

/** The values of a memory-mapped array. Not to be used after `close`. */
export class MappedArray {
  readonly #mapping: Mapping
  #words: BigUint64Array
  /** The same, the lower half of each word first. */
  #halves: Uint32Array

  /** `map` may be closed afterwards. Throws EPERM or EINVAL when it was not declared BPF_F_MMAPABLE. */
  constructor(map: BpfMap<number, bigint>) {
    const { name, maxEntries, valueSize } = map.info
    if (valueSize !== WORD) throw new RangeError(`map ${name} has values of ${valueSize} bytes, not ${WORD}`)
    this.#mapping = mapMemory(map.fd, maxEntries * WORD, name)
    this.#words = new BigUint64Array(this.#mapping.buffer)
    this.#halves = new Uint32Array(this.#mapping.buffer)
  }

  get(index: number): bigint {
    return Atomics.load(this.#words, index)
  }

  /** The lower half of a value, which is read sooner. */
  low(index: number): number {
    return Atomics.load(this.#halves, 2 * index)
  }

  /** Throws RangeError beyond the last element. */
  set(index: number, value: bigint): void {
    Atomics.store(this.#words, index, value)
  }

  /** Puts `value` in the place of `expected`, as one instruction; false when something else stood there. */
  exchange(index: number, expected: bigint, value: bigint): boolean {
    return Atomics.compareExchange(this.#words, index, expected, value) === expected
  }

  close(): void {
    // Without memory behind it an access must fail in JavaScript, not in the processor.
    this.#words = new BigUint64Array(0)
    this.#halves = new Uint32Array(0)
    this.#mapping.unmap()
  }
}
