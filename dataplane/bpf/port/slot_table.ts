/** Map `slots`: who is bound, and what it has sent and got. The map is memory that agent and programs share. */
import {
  ENDPOINT_ROWS,
  SLOT_DOWN_BYTES,
  SLOT_DOWN_PACKETS,
  SLOT_HOME,
  SLOT_TRUTH,
  SLOT_UP_BYTES,
  SLOT_UP_PACKETS,
  SLOT_WORD_BITS,
  TRUTH_ROUTED,
} from '../../numbers.ts'
import type { BpfMap } from '../map.ts'
import { MappedArray } from '../mapped.ts'
import { mac as macCodec } from './layout.ts'

export interface Bound {
  mac: string
  /** Its first address is a routed one. */
  routed: boolean
}

/** Frames, and their bytes on the wire without FCS; `up` is what the endpoint has sent. */
export interface Account {
  upPackets: bigint
  upBytes: bigint
  downPackets: bigint
  downBytes: bigint
}

/** Slots are numbered from 0 to ENDPOINT_ROWS - 1; any other is a RangeError. */
export class SlotTable {
  readonly #words: MappedArray

  /** `map` may be closed afterwards. */
  constructor(map: BpfMap<number, bigint>) {
    this.#words = new MappedArray(map)
  }

  /** Who is bound in the slot. */
  bound(slot: number): Bound | undefined {
    const word = this.#words.get(at(slot, SLOT_TRUTH))
    if (word === 0n) return undefined
    const bytes = Buffer.alloc(macCodec.size)
    bytes.writeBigUInt64LE(word)
    return { mac: macCodec.decode(bytes, 0), routed: (word & TRUTH_ROUTED) !== 0n }
  }

  /**
   * From the next frame on this MAC is the one bound in the slot, and the one before it is not: one store, so that there
   * is no instant with neither or both. undefined unbinds: before a row that leads here is taken away, because a program that holds
   * the row as it becomes another's reads this word last (is_bound of bpf/src/networks.h).
   */
  bind(slot: number, bound: Bound | undefined): void {
    this.#words.set(at(slot, SLOT_TRUTH), bound === undefined ? 0n : truth(bound))
  }

  /** Net << 32 | ifindex of the port that who is bound is at, 0 for none. */
  home(slot: number): bigint {
    return this.#words.get(at(slot, SLOT_HOME))
  }

  /** Puts it at a port, 0 for none, unless the program was faster and nothing stands there that was in `home` before. */
  place(slot: number, before: bigint, net: number, ifindex: number): void {
    this.#words.exchange(at(slot, SLOT_HOME), before, homeAt(net, ifindex))
  }

  /** ifindex of the port that who is bound is at, 0 for none. */
  homeIndex(slot: number): number {
    return this.#words.low(at(slot, SLOT_HOME))
  }

  /** Of `ports`, net by ifindex, those at which nobody of their net is bound, by the slots below `end`. */
  vacant(ports: Iterable<readonly [ifindex: number, net: number]>, end: number): Map<number, number> {
    const left = new Map(ports)
    for (let slot = 0; slot < end && left.size > 0; slot++) {
      const ifindex = this.homeIndex(slot)
      const net = ifindex === 0 ? undefined : left.get(ifindex)
      if (net === undefined || this.home(slot) !== homeAt(net, ifindex)) continue
      if (this.#words.get(at(slot, SLOT_TRUTH)) !== 0n) left.delete(ifindex)
    }
    return left
  }

  /** What was counted since `clear`. The four are read one after the other. */
  account(slot: number): Account {
    return {
      upPackets: this.#words.get(at(slot, SLOT_UP_PACKETS)),
      upBytes: this.#words.get(at(slot, SLOT_UP_BYTES)),
      downPackets: this.#words.get(at(slot, SLOT_DOWN_PACKETS)),
      downBytes: this.#words.get(at(slot, SLOT_DOWN_BYTES)),
    }
  }

  /** Makes the slot ready for another endpoint. Programs may have held it until a grace period after it was unbound. */
  clear(slot: number): void {
    for (let word = 0; word < 1 << SLOT_WORD_BITS; word++) this.#words.set(at(slot, word), 0n)
  }

  close(): void {
    this.#words.close()
  }
}

export const homeAt = (net: number, ifindex: number): bigint =>
  ifindex === 0 ? 0n : (BigInt(net) << 32n) | BigInt(ifindex)

function truth({ mac, routed }: Bound): bigint {
  const bytes = Buffer.alloc(macCodec.size)
  macCodec.encode(bytes, 0, mac)
  return bytes.readBigUInt64LE() | (routed ? TRUTH_ROUTED : 0n)
}

function at(slot: number, word: number): number {
  if (!(slot >= 0 && slot < ENDPOINT_ROWS)) throw new RangeError(`slot ${slot} is none of 0 to ${ENDPOINT_ROWS - 1}`)
  return (slot << SLOT_WORD_BITS) | word
}
