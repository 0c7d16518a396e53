/** `filter_settings` (struct filter_settings of bpf/src/classify.h): what holds for both families. */
import { clockLead } from '../../clock.ts'
import { DEFAULT_ACCEPT, DEFAULT_DROP, DEFAULT_SPARE, KEY_DEVICE, KEY_MAC } from '../../numbers.ts'
import type { FilterDefault } from './entries.ts'

export const SETTINGS_BYTES = 32

const GENERATION = 0
const ACTION = 1
const FRESH = 2
const ASKED = 3
/** Of 64 bits. */
const TAI = 2
const SEED = 6
/** For the agent alone. */
const DECIDED = 7

export type DefaultAction = Pick<FilterDefault, 'accept' | 'spares'>

export class Settings {
  readonly #words: Int32Array
  readonly #longs: BigUint64Array

  constructor(memory: ArrayBuffer) {
    this.#words = new Int32Array(memory, 0, SETTINGS_BYTES / 4)
    this.#longs = new BigUint64Array(memory, 0, SETTINGS_BYTES / 8)
  }

  /** The generation that packets live in; never 0. */
  get generation(): number {
    return (this.#words[GENERATION] ?? 0) >>> 0
  }

  /**
   * What begins with this generation is in force, and what ends with it no longer, both at this instant. Programs read it first,
   * and what was stored before it, the other settings too, afterwards (filter_generation of bpf/src/classify.h).
   */
  set generation(next: number) {
    Atomics.store(this.#words, GENERATION, next | 0)
  }

  /** What happens to packets that no rule decides; undefined while nobody has said so. */
  get decided(): DefaultAction | undefined {
    if (this.#words[DECIDED] === 0) return undefined
    const spares = this.#words[ACTION] === DEFAULT_SPARE
    return { accept: this.#words[ACTION] === DEFAULT_ACCEPT, ...(spares && { spares }) }
  }

  /** As long as nobody decides, they pass. */
  setDefault(action: DefaultAction | undefined): void {
    const { accept, spares = false } = action ?? { accept: true }
    Atomics.store(this.#words, ACTION, accept ? DEFAULT_ACCEPT : spares ? DEFAULT_SPARE : DEFAULT_DROP)
    this.#words[DECIDED] = action === undefined ? 0 : 1
  }

  /** Nobody has said so, but what was said goes on until somebody does. */
  forgetDefault(): void {
    this.#words[DECIDED] = 0
  }

  get seed(): number {
    return (this.#words[SEED] ?? 0) >>> 0
  }

  /** Before the first rule is filed. */
  set seed(seed: number) {
    this.#words[SEED] = seed
  }

  /** How many images of rules are fresh, ask for a MAC address, for a device. */
  counts(fresh: number, mac: number, device: number): void {
    Atomics.store(this.#words, FRESH, fresh)
    Atomics.store(this.#words, ASKED, (mac > 0 ? KEY_MAC : 0) | (device > 0 ? KEY_DEVICE : 0))
  }

  /** Programs can only read the clock that knows no leap seconds: tells them how far it leads. */
  setClock(): void {
    Atomics.store(this.#longs, TAI, clockLead())
  }
}

/** The generation after this one; 0 means none. */
export const following = (generation: number): number => (generation + 1) >>> 0 || 1
