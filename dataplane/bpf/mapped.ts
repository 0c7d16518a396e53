/**
 * Array maps of 64-bit values seen as memory (BPF_F_MMAPABLE): a value is stored by one aligned machine instruction, so
 * that every program sees the old or the new one. An update through the kernel copies bytes and promises no such thing.
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

/** The values of a memory-mapped array. Not to be used after `close`. */
export class MappedArray {
  readonly #address: bigint
  readonly #length: number
  #words: BigUint64Array

  /** `map` may be closed afterwards. Throws EPERM or EINVAL when it was not declared BPF_F_MMAPABLE. */
  constructor(map: BpfMap<number, bigint>) {
    const { name, maxEntries, valueSize } = map.info
    if (valueSize !== WORD) throw new RangeError(`map ${name} has values of ${valueSize} bytes, not ${WORD}`)
    this.#length = maxEntries * WORD
    this.#address = mmap(null, this.#length, READ_WRITE, SHARED, map.fd, 0)
    if (this.#address === FAILED) throw new KernelError(koffi.errno(), `cannot map the memory of map ${name}`)
    this.#words = new BigUint64Array(koffi.view(this.#address, this.#length))
  }

  get(index: number): bigint {
    return Atomics.load(this.#words, index)
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
    munmap(this.#address, this.#length)
  }
}
