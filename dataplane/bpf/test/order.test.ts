/** What order.h asks for is in the programs that the compiler makes. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const SOURCES = join(import.meta.dirname, '../src')
/** linux/bpf.h: the opcode of `r &= immediate` (BPF_ALU64 | BPF_AND | BPF_K). */
const AND = 0x57
/** elf.h */
const [PROGBITS, EXECUTABLE] = [1, 4]
const INSTRUCTION = 8

/** Programs of a 64-bit ELF object, as they stand in its sections. */
function* programs(object: Buffer): Generator<Buffer> {
  const table = Number(object.readBigUInt64LE(0x28))
  const size = object.readUInt16LE(0x3a)
  for (let n = 0; n < object.readUInt16LE(0x3c); n++) {
    const head = object.subarray(table + n * size, table + (n + 1) * size)
    if (head.readUInt32LE(4) !== PROGBITS || (head.readUInt32LE(8) & EXECUTABLE) === 0) continue
    const at = Number(head.readBigUInt64LE(24))
    yield object.subarray(at, at + Number(head.readBigUInt64LE(32)))
  }
}

/** For each register that `after` has emptied, whether what is done with it next takes it for something. */
function* emptied(program: Buffer): Generator<boolean> {
  for (let at = 0; at < program.length; at += INSTRUCTION) {
    if (program[at] !== AND || program.readInt32LE(at + 4) !== 0) continue
    yield isTaken(program, at + INSTRUCTION, (program[at + 1] ?? 0) & 15)
  }
}

function isTaken(program: Buffer, from: number, register: number): boolean {
  for (let at = from; at < program.length; at += INSTRUCTION) {
    const [code = 0, registers = 0] = program.subarray(at, at + 2)
    const kind = code & 7
    // 0: a constant, 1: load, 2: a constant stored, 3: store, 4 and 7: arithmetic, 5 and 6: jump; 8: with a source register
    const source = kind === 1 || kind === 3 || (kind > 3 && (code & 8) !== 0)
    if (source && registers >> 4 === register) return true
    const moves = (kind === 4 || kind === 7) && code >> 4 === 0xb
    if ((registers & 15) === register && (kind < 2 || kind === 4 || kind === 7)) return !moves && kind > 1
  }
  return false
}

for (const name of ['firewall', 'lb', 'port']) {
  t.test(`${name}: each address that shall wait for a value is made of it`, async (t) => {
    const all = [...programs(readFileSync(join(SOURCES, `${name}.bpf.o`)))].flatMap((it) => [...emptied(it)])
    t.ok(all.length > 0, `${all.length} places`)
    t.ok(
      all.every((isTaken) => isTaken),
      'the compiler has left none of them out',
    )
  })
}
