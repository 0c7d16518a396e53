/** How keys and values of BPF maps stand in memory. Integers are little-endian, the byte order of every host we run on. */

export interface Codec<T> {
  /** Bytes that the kernel keeps for one value, C padding included. */
  readonly size: number
  /** Writes all of `size` bytes at `at`; the buffer may hold old content. */
  encode(into: Buffer, at: number, value: T): void
  /** Reads at `at` and keeps no reference to the buffer. */
  decode(from: Buffer, at: number): T
}

/** `__u32`, the key of arrays. Also a map's file descriptor as the value of a map of maps. */
export const u32: Codec<number> = {
  size: 4,
  encode: (into, at, value) => void into.writeUInt32LE(value, at),
  decode: (from, at) => from.readUInt32LE(at),
}

export const u64: Codec<bigint> = {
  size: 8,
  encode: (into, at, value) => void into.writeBigUInt64LE(value, at),
  decode: (from, at) => from.readBigUInt64LE(at),
}

/** Exactly `size` bytes as they are. */
export function bytes(size: number): Codec<Uint8Array> {
  return {
    size,
    encode(into, at, value) {
      if (value.length !== size) throw new RangeError(`${value.length} bytes given for a field of ${size}`)
      into.set(value, at)
    },
    decode: (from, at) => new Uint8Array(from.subarray(at, at + size)),
  }
}

/**
 * The value of a per-CPU map: one `each` for every possible CPU, in the order of their numbers, each on a multiple of 8
 * bytes. When encoding, CPUs beyond the given values get zeros. `cpus` comes from `possibleCpus`.
 */
export function perCpu<T>(each: Codec<T>, cpus: number): Codec<T[]> {
  const stride = Math.ceil(each.size / 8) * 8
  return {
    size: stride * cpus,
    encode(into, at, values) {
      if (values.length > cpus) throw new RangeError(`${values.length} values given for ${cpus} CPUs`)
      into.fill(0, at, at + stride * cpus)
      values.forEach((value, cpu) => {
        each.encode(into, at + cpu * stride, value)
      })
    },
    decode: (from, at) => Array.from({ length: cpus }, (_, cpu) => each.decode(from, at + cpu * stride)),
  }
}
