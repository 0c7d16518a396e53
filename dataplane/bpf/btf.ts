/** What BTF, the type information of programs, is asked for: where a constant stands. */
import { libbpf, type ObjectPointer, present } from './libbpf.ts'

/** linux/btf.h */
const KIND_VAR = 14
const KIND_DATASEC = 15

/** struct btf_type, followed in a data section by one struct btf_var_secinfo for each variable: 12 bytes both. */
const RECORD = 12

/**
 * Gives a `const volatile` variable of an object that is open and not loaded yet its value, `value` being its exact
 * bytes in C. The verifier then sees a constant.
 */
export function setConstant(object: ObjectPointer, variable: string, value: Uint8Array): void {
  const lib = libbpf()
  const { at, size } = place(object, variable)
  if (value.length !== size) throw new RangeError(`constant ${variable} has ${size} bytes, not ${value.length}`)
  const map = present(lib.findMap(object, '.rodata'), 'find the constants of the object')
  const content = present(lib.initialValue(map, new BigUint64Array(1)), 'find the content of the constants')
  lib.copyIn(content + BigInt(at), value)
}

/** Offset and size of a variable within `.rodata`. */
function place(object: ObjectPointer, variable: string): { at: number; size: number } {
  const lib = libbpf()
  const btf = present(lib.objectBtf(object), 'read the type information of the object')
  const id = lib.findType(btf, variable, KIND_VAR)
  const section = lib.typeById(btf, lib.findType(btf, '.rodata', KIND_DATASEC))
  if (id >= 0 && section !== null) {
    const count = lib.copyOut(section, RECORD).readUInt32LE(4) & 0xffff
    const records = lib.copyOut(section, RECORD * (1 + count))
    for (let at = RECORD; at <= RECORD * count; at += RECORD) {
      if (records.readUInt32LE(at) === id)
        return { at: records.readUInt32LE(at + 4), size: records.readUInt32LE(at + 8) }
    }
  }
  throw new Error(`the object has no constant ${variable}`)
}
