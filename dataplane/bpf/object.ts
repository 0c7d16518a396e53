/**
 * Compiled BPF objects: opened, given their constants, loaded into the kernel. Maps declared LIBBPF_PIN_BY_NAME are
 * taken over from `pinDir` when they are pinned there, and pinned there otherwise.
 */
import { existsSync } from 'node:fs'
import { KernelError } from '../libc.ts'
import { pinAt } from './bpffs.ts'
import { setConstant } from './btf.ts'
import type { Codec } from './codec.ts'
import { checked, type Libbpf, libbpf, type MapPointer, type ObjectPointer, present } from './libbpf.ts'
import { BpfMap } from './map.ts'
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
}

/** A loaded program; its descriptor belongs to the object. */
export interface Program {
  readonly name: string
  readonly fd: number
  /** The kernel's id, which links tell too. */
  readonly id: number
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
  readonly #pointer: ObjectPointer
  #state: 'open' | 'loading' | 'loaded' | 'closed' = 'open'

  /** `openObject` with its options; throws as it does. */
  constructor(path: string, options: ObjectOptions) {
    this.path = path
    this.#lib = libbpf()
    if (!existsSync(path)) throw new Error(`${path} is missing: build it with clang (apt-get install clang libbpf-dev)`)
    const asked = openOptions(options.pinDir ?? null, this.#log)
    const open = () => present(this.#lib.openObject(path, asked), `open ${path}`)
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

  /**
   * Makes the maps and has the kernel verify the programs, on the pool. On failure nothing new stays in the kernel, the
   * object is closed, and the error carries libbpf's words and the end of the verifier's log.
   */
  async load(): Promise<void> {
    if (this.#state !== 'open') throw new Error(`${this.path} is ${this.#state}`)
    this.#state = 'loading'
    const result = await this.#lib.warnings.duringLater(this.#hear, () => this.#lib.loadObject(this.#pointer))
    this.#state = 'loaded'
    if (result >= 0) return
    this.close()
    throw this.#failure(-result)
  }

  /** A loaded program by its C function's name. Valid until `close`. */
  program(name: string): Program {
    const pointer = this.#lib.findProgram(this.#loaded(), name)
    if (pointer === null) throw new Error(`${this.path} has no program ${name}`)
    const fd = checked(this.#lib.programFd(pointer), `use program ${name}`)
    return { name, fd, id: programId(this.#lib, fd) }
  }

  /** A map by its C name. Valid until `close`; the kernel's map lives on while it is pinned or used by a link. */
  map<K, V>(name: string, key: Codec<K>, value: Codec<V>): BpfMap<K, V> {
    return new BpfMap(this.mapFd(name), key, value, 'borrowed')
  }

  /** Descriptor of a map that has no keys and values, such as a ring buffer. Valid until `close`. */
  mapFd(name: string): number {
    const pointer = this.#lib.findMap(this.#loaded(), name)
    if (pointer === null) throw new Error(`${this.path} has no map ${name}`)
    return checked(this.#lib.mapFd(pointer), `use map ${name}`)
  }

  /** Pins the maps again whose pins somebody has deleted. @throws KernelError */
  pinAgain(): void {
    const object = this.#loaded()
    for (let map = this.#lib.nextMap(object, null); map !== null; map = this.#lib.nextMap(object, map)) {
      const path = this.#lib.pinPath(map)
      if (path === null || existsSync(path)) continue
      const fd = checked(this.#lib.mapFd(map), `use the map of ${path}`)
      pinAt(path, () => checked(this.#lib.pin(fd, path), `pin the map at ${path}`))
    }
  }

  /** Gives every handle back; what is attached or pinned stays. Not while `load` runs, whose memory this frees. */
  close(): void {
    if (this.#state === 'closed') return
    if (this.#state === 'loading') throw new Error(`${this.path} is loading: close it afterwards`)
    this.#state = 'closed'
    this.#lib.closeObject(this.#pointer)
  }

  #mapPointer(name: string): MapPointer {
    return present(this.#lib.findMap(this.#pointer, name), `find map ${name}`)
  }

  #loaded(): ObjectPointer {
    if (this.#state !== 'loaded') throw new Error(`${this.path} is ${this.#state}, not loaded`)
    return this.#pointer
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
