/**
 * Programs that stay pinned for the next agent, which takes them over if they are what it would load: to have them verified
 * again is most of a start. The name of the pin proves it, being a digest of all that makes a program, and of what the kernel
 * says of the one that it made of that. The kernel gives no number twice, so what was loaded of another build, goes on from
 * other maps, or was put there by somebody, would bear another name; and a pin is there with its name, or not at all.
 */
import { createHash } from 'node:crypto'
import { closeSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pinAt, pinsIn } from './bpffs.ts'
import { checked, libbpf } from './libbpf.ts'
import type { MapInfo } from './map.ts'

/** All that makes the programs of an object what they are. */
export interface Origin {
  /** The object as it was compiled. */
  code: Uint8Array
  /** Constants that it is given. */
  rodata: Readonly<Record<string, Uint8Array>>
  /** What the programs are bound to: pinned maps as the kernel knows them, others by how many entries they shall have. */
  maps: ReadonlyMap<string, MapInfo | number | undefined>
  /** libbpf, which puts them together, and the kernel, which compiles them. */
  loaders: readonly string[]
}

/** What the kernel says of a program. */
export interface ToldProgram {
  id: number
  /** The kernel's digest of the instructions. */
  tag: string
  /** ns since the node was booted. */
  loadedAt: bigint
}

/** The node as it compiles: who switches the hardening of the compiler on wants programs that are compiled anew. */
const KERNEL = ['/proc/version', '/proc/sys/net/core/bpf_jit_enable', '/proc/sys/net/core/bpf_jit_harden']

/** `<program>-<digest>` */
const PIN = /^([A-Za-z0-9_]+)-[0-9a-f]{32}$/

export function digestOf({ code, rodata, maps, loaders }: Origin): string {
  const constants = Object.entries(rodata).map(([name, value]) => [name, Buffer.from(value).toString('hex')])
  return sha256(JSON.stringify([sha256(code), constants.sort(), [...maps].sort(), loaders]))
}

/**
 * Where the program of this name is pinned that the kernel made of what `origin` is the digest of. `first` is the number of the
 * first program of the same load: programs of one object share the maps that have no pin, so those of two loads do not go together.
 */
export const pinName = (program: string, origin: string, first: number, { id, tag, loadedAt }: ToldProgram): string =>
  `${program}-${sha256(JSON.stringify([origin, first, program, id, tag, String(loadedAt)])).slice(0, 32)}`

/**
 * The pin of each program if all of one load are there and are what would be loaded; undefined when any of them is in doubt. A
 * killed agent may have left those of two: the later one's count.
 */
export function proven(
  programs: readonly string[],
  origin: string,
  pinned: ReadonlyMap<string, ToldProgram>,
): ReadonlyMap<string, string> | undefined {
  const named = Array.from(pinned, ([pin, told]) => ({ pin, told, program: PIN.exec(pin)?.[1] ?? '' }))
  const firsts = named.flatMap(({ program, told }) => (program === programs[0] ? told.id : []))
  for (const first of firsts.sort((a, b) => b - a)) {
    const found = new Map<string, string>()
    for (const { pin, told, program } of named) {
      if (programs.includes(program) && pin === pinName(program, origin, first, told)) found.set(program, pin)
    }
    if (programs.every((program) => found.has(program))) return found
  }
  return undefined
}

/**
 * Descriptors of the programs that are pinned in `dir`, which are the caller's; undefined when they are to be loaded. What else is
 * pinned there goes.
 */
export function takeOver(dir: string, programs: readonly string[], origin: string): Map<string, number> | undefined {
  const open = new Map<string, number>()
  const pinned = new Map<string, ToldProgram>()
  for (const pin of pinsIn(dir)) {
    const fd = libbpf().openPin(join(dir, pin))
    if (fd < 0) continue
    open.set(pin, fd)
    pinned.set(pin, toldOf(fd))
  }
  const found = proven(programs, origin, pinned)
  // In the order in which they are declared, of which the first tells the load (`keep`).
  const taken = new Map(found && programs.map((program) => [program, open.get(found.get(program) ?? '') ?? -1]))
  const ours = new Set(taken.values())
  for (const fd of open.values()) if (!ours.has(fd)) closeSync(fd)
  if (found === undefined) return undefined
  removeOthers(dir, new Set(found.values()))
  return taken
}

/** Pins programs that were loaded for the next agent, as far as they are not, and takes the pins of all others away. */
export function keep(dir: string, programs: ReadonlyMap<string, number>, origin: string): void {
  const wanted = new Set<string>()
  const told = Array.from(programs, ([program, fd]) => ({ program, fd, told: toldOf(fd) }))
  const first = told[0]?.told.id ?? 0
  for (const { program, fd, told: own } of told) {
    const name = pinName(program, origin, first, own)
    wanted.add(name)
    const path = join(dir, name)
    if (!existsSync(path)) pinAt(path, () => checked(libbpf().pin(fd, path), `pin the program at ${path}`))
  }
  removeOthers(dir, wanted)
}

function removeOthers(dir: string, wanted: ReadonlySet<string>): void {
  for (const name of pinsIn(dir)) if (!wanted.has(name)) rmSync(join(dir, name), { recursive: true, force: true })
}

/** What loads and compiles programs here. */
export const loadersHere = (): string[] => [libbpf().version(), ...KERNEL.map(contentOf)]

function contentOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // The settings of the compiler are shown in the first network namespace only.
    return ''
  }
}

/** struct bpf_prog_info of linux/bpf.h. What is no program tells something else there. @throws KernelError */
function toldOf(fd: number): ToldProgram {
  const info = Buffer.alloc(48)
  checked(libbpf().info(fd, info, Uint32Array.of(info.length)), 'read the description of a program')
  return { id: info.readUInt32LE(4), tag: info.toString('hex', 8, 16), loadedAt: info.readBigUInt64LE(40) }
}

const sha256 = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex')
