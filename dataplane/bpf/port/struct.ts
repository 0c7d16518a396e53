/** Codecs of C structs, whose fields stand at offsets that a test compares with the type information of the programs. */
import type { Codec } from '../codec.ts'

/** Where each field stands and how it is written. */
type Fields<T> = { readonly [K in keyof T]: readonly [at: number, codec: Codec<T[K]>] }

export interface Struct<T> extends Codec<T> {
  /** Name of the struct in bpf/src/maps.h. */
  readonly struct: string
  readonly fields: Fields<T>
}

/** `size` as C counts it. What no field covers is written as zeros. */
export function struct<T extends object>(name: string, size: number, fields: Fields<T>): Struct<T> {
  // The keys of a mapped type over T are those of T.
  const names = Object.keys(fields) as (keyof T)[]
  return {
    struct: name,
    fields,
    size,
    encode(into, at, value) {
      into.fill(0, at, at + size)
      for (const field of names) fields[field][1].encode(into, at + fields[field][0], value[field])
    },
    decode(from, at) {
      const value: Partial<T> = {}
      for (const field of names) value[field] = fields[field][1].decode(from, at + fields[field][0])
      // Every field of T has just been read by the codec of its type.
      return value as T
    },
  }
}
