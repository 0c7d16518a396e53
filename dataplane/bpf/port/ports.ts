/**
 * Map `ports`: which ports of br-work are guarded, and the net of each. The map is memory that agent and programs share:
 * every change is one exchange of a 64-bit word, so that the program's claim of a port is never lost.
 */
import { PORT_HASH, PORT_ROWS, PORT_SET_BITS, PORT_WAY_BITS, STAMP_NET } from '../../numbers.ts'
import type { BpfMap } from '../map.ts'
import { MappedArray } from '../mapped.ts'

const WAYS = 1 << PORT_WAY_BITS
const WORDS = 1 << (PORT_SET_BITS + PORT_WAY_BITS)

export class PortTable {
  readonly #words: MappedArray

  /** `map` may be closed afterwards. */
  constructor(map: BpfMap<number, bigint>) {
    this.#words = new MappedArray(map)
  }

  /** The net of a port, 0 while it is open; undefined when it is not in the table. */
  net(ifindex: number): number | undefined {
    const at = this.#find(ifindex)
    return at === undefined ? undefined : netIn(this.#words.get(at))
  }

  /** Whether a port has this net and these PORT_*. */
  is(ifindex: number, net: number, kind: number): boolean {
    const at = this.#find(ifindex)
    return at !== undefined && this.#words.get(at) === word(ifindex, net, kind)
  }

  /** Adds a port, or gives it another net or kind (PORT_*). Throws when there is no room, which takes more than PORT_ROWS ports. */
  set(ifindex: number, net: number, kind = 0): void {
    const at = this.#find(ifindex) ?? this.#find(0, setOf(ifindex))
    if (at === undefined) throw new Error(`no room for a port: br-work can have ${PORT_ROWS} ports`)
    this.#words.set(at, word(ifindex, net, kind))
  }

  /** Gives a workload's port another net only while it has this one: false when the program or somebody else was faster. */
  replace(ifindex: number, from: number, to: number): boolean {
    const at = this.#find(ifindex)
    return at !== undefined && this.#words.exchange(at, word(ifindex, from), word(ifindex, to))
  }

  /** False when it was not there. */
  delete(ifindex: number): boolean {
    const at = this.#find(ifindex)
    if (at !== undefined) this.#words.set(at, 0n)
    return at !== undefined
  }

  /** ifindex and net of every port, in no order. */
  *entries(): Generator<[ifindex: number, net: number]> {
    for (let at = 0; at < WORDS; at++) {
      const value = this.#words.get(at)
      if (value !== 0n) yield [Number(value >> 32n), netIn(value)]
    }
  }

  close(): void {
    this.#words.close()
  }

  /** Index of the word of an ifindex within its set; of a free one for 0. */
  #find(ifindex: number, set = setOf(ifindex)): number | undefined {
    for (let at = set * WAYS; at < (set + 1) * WAYS; at++) if (Number(this.#words.get(at) >> 32n) === ifindex) return at
    return undefined
  }
}

/** As `port_word` of bpf/src/networks.h. */
function setOf(ifindex: number): number {
  return Math.imul(ifindex, PORT_HASH) >>> (32 - PORT_SET_BITS)
}

function word(ifindex: number, net: number, kind = 0): bigint {
  return (BigInt(ifindex) << 32n) | BigInt(net) | BigInt(kind)
}

function netIn(value: bigint): number {
  return Number(value & BigInt(STAMP_NET))
}
