/** Reads the structs of a compiled object from its type information (section .BTF; format: kernel Documentation/bpf/btf.rst). */
import { readFileSync } from 'node:fs'

export interface Member {
  name: string
  at: number
  size: number
}
export interface CStruct {
  size: number
  members: Member[]
}

const KIND = {
  int: 1,
  pointer: 2,
  array: 3,
  struct: 4,
  union: 5,
  enum: 6,
  typedef: 8,
  prototype: 13,
  datasec: 15,
} as const
/** Bytes that follow a record of 12: fixed, and for each of its elements. */
const TAIL: Readonly<Record<number, readonly [fixed: number, each: number]>> = {
  [KIND.int]: [4, 0],
  [KIND.array]: [12, 0],
  [KIND.struct]: [0, 12],
  [KIND.union]: [0, 12],
  [KIND.enum]: [0, 8],
  [KIND.prototype]: [0, 8],
  14: [4, 0],
  [KIND.datasec]: [0, 12],
  17: [4, 0],
  19: [0, 12],
}

interface Type {
  kind: number
  name: string
  count: number
  /** Size or type, by kind. */
  value: number
  /** Where the tail begins. */
  tail: number
}

/** Name → struct, of every struct of the object. */
export function readStructs(path: string): Map<string, CStruct> {
  const btf = section(readFileSync(path), '.BTF')
  const header = btf.readUInt32LE(4)
  const [typesAt, typesLength, textAt] = [8, 12, 16].map((at) => btf.readUInt32LE(at)) as [number, number, number]
  const text = (at: number) => {
    const start = header + textAt + at
    return btf.toString('latin1', start, btf.indexOf(0, start))
  }
  const types: (Type | undefined)[] = [undefined]
  for (let at = header + typesAt; at < header + typesAt + typesLength; ) {
    const info = btf.readUInt32LE(at + 4)
    const [kind, count] = [(info >>> 24) & 0x1f, info & 0xffff]
    const [fixed, each] = TAIL[kind] ?? [0, 0]
    types.push({ kind, count, name: text(btf.readUInt32LE(at)), value: btf.readUInt32LE(at + 8), tail: at + 12 })
    at += 12 + fixed + each * count
  }
  const sizeOf = (id: number): number => {
    const type = types[id]
    if (type === undefined) return 0
    if (type.kind === KIND.array) return sizeOf(btf.readUInt32LE(type.tail)) * btf.readUInt32LE(type.tail + 8)
    if (type.kind === KIND.pointer) return 8
    const isAlias = type.kind === KIND.typedef || (type.kind > KIND.typedef && type.kind < 12)
    return isAlias ? sizeOf(type.value) : type.value
  }
  const structs = types.filter((type): type is Type => type?.kind === KIND.struct)
  return new Map(
    structs.map(({ name, value, count, tail }) => {
      const members = Array.from({ length: count }, (_, n) => ({
        name: text(btf.readUInt32LE(tail + n * 12)),
        size: sizeOf(btf.readUInt32LE(tail + n * 12 + 4)),
        at: btf.readUInt32LE(tail + n * 12 + 8) / 8,
      }))
      return [name, { size: value, members }]
    }),
  )
}

/** A section of a 64-bit little-endian ELF file. */
function section(elf: Buffer, name: string): Buffer {
  const at = Number(elf.readBigUInt64LE(40))
  const [size, count, names] = [58, 60, 62].map((field) => elf.readUInt16LE(field)) as [number, number, number]
  const record = (n: number) => {
    const start = at + n * size
    const offset = Number(elf.readBigUInt64LE(start + 24))
    return {
      name: elf.readUInt32LE(start),
      content: elf.subarray(offset, offset + Number(elf.readBigUInt64LE(start + 32))),
    }
  }
  const text = record(names).content
  for (let n = 0; n < count; n++) {
    const { name: where, content } = record(n)
    if (text.toString('latin1', where, text.indexOf(0, where)) === name) return content
  }
  throw new Error(`no section ${name}`)
}
