/**
 * Compiled BPF objects: opened, given their constants, loaded into the kernel. Maps declared LIBBPF_PIN_BY_NAME are
 * taken over from `pinDir` when they are pinned there, and pinned there otherwise.
 */
import { closeSync, existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { KernelError } from '../libc.ts'
import { pinAt } from './bpffs.ts'
import { setConstant } from './btf.ts'
import type { Codec } from './codec.ts'
import { digestOf, keep, loadersHere, takeOver } from './kept.ts'
import {
  checked,
  type Libbpf,
  libbpf,
  type MapPointer,
  type ObjectPointer,
  type ProgramPointer,
  present,
} from './libbpf.ts'
import { BpfMap, mapInfo } from './map.ts'
import { openOptions } from './structs.ts'

export interface ObjectOptions {
  /** An existing directory on a bpf filesystem (`layoutDir`). Needed as soon as the object declares a pinned map. */
  pinDir?: string
  /** Paths of pins that are somewhere else, by the names of the maps. */
  pins?: Readonly<Record<string, string>>
  /** How many entries maps have that are not pinned yet, by their names, instead of as many as they are declared with. */
  rows?: Readonly<Record<string, number>>
  /** `const volatile` variables by name, as the exact bytes that C sees. */
  rodata?: Readonly<Record<string, Uint8Array>>
  /**
   * Where on a bpf filesystem the programs stay pinned for the next agent, which takes them over unverified if they are what
   * it would load (kept.ts). Maps that are not pinned are then the programs' own: nobody else gets at them.
   */
  keepIn?: string
}

/** A loaded program; its descriptor belongs to the object. */
export interface Program {
  readonly name: string
  readonly fd: number
  /** The kernel's id, which links tell too. */
  readonly id: number
}

interface HeldMap {
  fd: number
  /** Where it is pinned; null where it is not. */
  pin: string | null
}

/** Room for the verifier's words about one program; memory that is only taken when loading fails. */
const LOG_SIZE = 1 << 20
/** What of it an error repeats: the cause stands at the end. */
const LOG_LINES = 40

/** asm-generic/errno-base.h */
const EPERM = 1

/**
 * Opens `path` and sets its constants; the kernel knows nothing of it before `load`.
 * Throws when libbpf or the file is missing or a constant of `rodata` does not fit.
 */
export function openObject(path: string, options: ObjectOptions = {}): BpfObject {
  return new BpfObject(path, options)
}

export class BpfObject {
  readonly path: string
  /** What libbpf warned of while opening and loading, one line each. */
  readonly warnings: string[] = []
  readonly #lib: Libbpf
  readonly #hear = (line: string) => void this.warnings.push(line)
  readonly #log = Buffer.alloc(LOG_SIZE)
  readonly #options: ObjectOptions
  /** libbpf reads it until it is loaded. */
  #code: Buffer
  readonly #pointer: ObjectPointer
  #state: 'open' | 'loading' | 'loaded' | 'closed' = 'open'
  /** Descriptors by name: libbpf's, or those taken over. */
  #programs = new Map<string, number>()
  #maps = new Map<string, HeldMap>()
  /** By which the programs are known to the next agent. */
  #origin = ''
  #isTakenOver = false

  /** `openObject` with its options; throws as it does. */
  constructor(path: string, options: ObjectOptions) {
    this.path = path
    this.#options = options
    this.#lib = libbpf()
    if (!existsSync(path)) throw new Error(`${path} is missing: build it with clang (apt-get install clang libbpf-dev)`)
    // Read once: an upgrade may put another in its place at any moment, which would not be what is loaded.
    this.#code = readFileSync(path)
    const asked = openOptions(basename(path, '.bpf.o'), options.pinDir ?? null, this.#log)
    const open = () => present(this.#lib.openObject(this.#code, this.#code.length, asked), `open ${path}`)
    this.#pointer = this.#lib.warnings.during(this.#hear, open)
    try {
      for (const [name, value] of Object.entries(options.rodata ?? {})) setConstant(this.#pointer, name, value)
      for (const [name, pin] of Object.entries(options.pins ?? {})) {
        checked(this.#lib.setPinPath(this.#mapPointer(name), pin), `pin map ${name}`)
      }
      for (const [name, rows] of Object.entries(options.rows ?? {})) {
        checked(this.#lib.setMaxEntries(this.#mapPointer(name), rows), `make room in map ${name}`)
      }
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** True once it is loaded if that took no verifying: the programs are those of an earlier agent. */
  get isTakenOver(): boolean {
    return this.#isTakenOver
  }

  /**
   * Takes over the programs that an earlier agent has kept. Else makes the maps and has the kernel verify the programs, on
   * the pool. On failure nothing new stays in the kernel, the object is closed, and the error carries libbpf's words and the
   * end of the verifier's log.
   */
  async load(): Promise<void> {
    if (this.#state !== 'open') throw new Error(`${this.path} is ${this.#state}`)
    if (this.#takeOver()) return
    this.#state = 'loading'
    const result = await this.#lib.warnings.duringLater(this.#hear, () => this.#lib.loadObject(this.#pointer))
    this.#state = 'loaded'
    if (result < 0) {
      this.close()
      throw this.#failure(-result)
    }
    for (const [name, program] of this.#declaredPrograms()) {
      this.#programs.set(name, checked(this.#lib.programFd(program), `use program ${name}`))
    }
    for (const [name, map] of this.#declaredMaps()) {
      const pin = this.#lib.pinPath(map)
      this.#maps.set(name, { fd: checked(this.#lib.mapFd(map), `use map ${name}`), pin })
    }
    this.#hold(this.#originOf(this.#maps))
    this.#keep()
  }

  /** A loaded program by its C function's name. Valid until `close`. */
  program(name: string): Program {
    this.#requireLoaded()
    const fd = this.#programs.get(name)
    if (fd === undefined) throw new Error(`${this.path} has no program ${name}`)
    return { name, fd, id: programId(this.#lib, fd) }
  }

  /** A map by its C name. Valid until `close`; the kernel's map lives on while it is pinned or used by a link. */
  map<K, V>(name: string, key: Codec<K>, value: Codec<V>): BpfMap<K, V> {
    return new BpfMap(this.mapFd(name), key, value, 'borrowed')
  }

  /** Descriptor of a map that has no keys and values, such as a ring buffer. Valid until `close`. */
  mapFd(name: string): number {
    this.#requireLoaded()
    const map = this.#maps.get(name)
    if (map === undefined) throw new Error(`${this.path} has no map ${name}`)
    // After a takeover it could not be found, so it is not given before either.
    if (map.pin === null && this.#options.keepIn !== undefined) throw new Error(`map ${name} is to be pinned`)
    return map.fd
  }

  /** Pins the maps and the programs again whose pins somebody has deleted. @throws KernelError */
  pinAgain(): void {
    this.#requireLoaded()
    for (const { fd, pin } of this.#maps.values()) {
      if (pin === null || existsSync(pin)) continue
      pinAt(pin, () => checked(this.#lib.pin(fd, pin), `pin the map at ${pin}`))
    }
    this.#keep()
  }

  /** Gives every handle back; what is attached or pinned stays. Not while `load` runs, whose memory this frees. */
  close(): void {
    if (this.#state === 'closed') return
    if (this.#state === 'loading') throw new Error(`${this.path} is loading: close it afterwards`)
    this.#state = 'closed'
    this.#lib.closeObject(this.#pointer)
    if (!this.#isTakenOver) return
    for (const fd of this.#programs.values()) closeSync(fd)
    closeAll(this.#maps)
  }

  /** True when all programs are there, and the maps that they go on from are those that are pinned. */
  #takeOver(): boolean {
    const { keepIn } = this.#options
    if (keepIn === undefined || !existsSync(keepIn)) return false
    const maps = new Map<string, HeldMap>()
    for (const [name, map] of this.#declaredMaps()) {
      const pin = this.#lib.pinPath(map)
      const fd = pin === null ? -1 : this.#lib.openPin(pin)
      if (pin !== null && fd < 0) {
        closeAll(maps)
        return false
      }
      maps.set(name, { fd, pin })
    }
    const names = this.#declaredPrograms().map(([name]) => name)
    const origin = this.#originOf(maps)
    const programs = takeOver(keepIn, names, origin)
    if (programs === undefined) {
      closeAll(maps)
      return false
    }
    this.#programs = programs
    this.#maps = maps
    this.#isTakenOver = true
    this.#hold(origin)
    return true
  }

  #hold(origin: string): void {
    this.#state = 'loaded'
    this.#origin = origin
    this.#code = Buffer.alloc(0)
  }

  /** What cannot be kept is verified again by the next agent. */
  #keep(): void {
    const { keepIn } = this.#options
    if (keepIn === undefined) return
    try {
      keep(keepIn, this.#programs, this.#origin)
    } catch (error) {
      this.#hear((error as Error).message)
    }
  }

  /** Tells the programs that are bound to these maps from all others. */
  #originOf(maps: ReadonlyMap<string, HeldMap>): string {
    const { rodata = {}, rows = {} } = this.#options
    const bound = Array.from(maps, ([name, { fd, pin }]) => [name, pin === null ? rows[name] : mapInfo(fd)] as const)
    return digestOf({ code: this.#code, rodata, maps: new Map(bound), loaders: loadersHere() })
  }

  #declaredPrograms(): [string, ProgramPointer][] {
    const next = (after: ProgramPointer | null) => this.#lib.nextProgram(this.#pointer, after)
    return chain(next).map((program) => [this.#lib.programName(program), program])
  }

  #declaredMaps(): [string, MapPointer][] {
    const next = (after: MapPointer | null) => this.#lib.nextMap(this.#pointer, after)
    return chain(next).map((map) => [this.#lib.mapName(map), map])
  }

  #mapPointer(name: string): MapPointer {
    return present(this.#lib.findMap(this.#pointer, name), `find map ${name}`)
  }

  #requireLoaded(): void {
    if (this.#state !== 'loaded') throw new Error(`${this.path} is ${this.#state}, not loaded`)
  }

  /** The errno, what to do where that is known, libbpf's words and the end of the verifier's log. */
  #failure(errno: number): KernelError {
    const lines = [`cannot load ${this.path}`]
    const mismatch = this.warnings.find((line) => line.includes('parameter mismatch'))
    if (mismatch) lines.push('a pinned map was made with another layout: raise BPF_LAYOUT in dataplane/numbers.ts')
    if (errno === EPERM) lines.push('loading BPF programs needs root')
    const log = this.#log.toString('utf8', 0, this.#log.indexOf(0)).trimEnd().split('\n').slice(-LOG_LINES)
    return new KernelError(errno, [...lines, ...this.warnings, ...log].join('\n').trimEnd())
  }
}

/** Id in struct bpf_prog_info of linux/bpf.h. */
function programId(lib: Libbpf, fd: number): number {
  const info = Buffer.alloc(8)
  checked(lib.info(fd, info, Uint32Array.of(info.length)), 'read the description of a program')
  return info.readUInt32LE(4)
}

/** What `next` goes through. */
function chain<P>(next: (after: P | null) => P | null): P[] {
  const all: P[] = []
  for (let one = next(null); one !== null; one = next(one)) all.push(one)
  return all
}

/** Those that were opened for a takeover. */
function closeAll(maps: ReadonlyMap<string, HeldMap>): void {
  for (const { fd } of maps.values()) if (fd >= 0) closeSync(fd)
}
