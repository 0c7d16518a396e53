/** Bits that tell the programs at little cost that a packet is none of theirs (map `lb_hints`). */
import { addressBytes } from '../../netlink/inet.ts'
import { LB_HINT_BITS, LB_HINT_FINISH, LB_HINT_MIX } from '../../numbers.ts'
import { type Frontend, PROTOCOLS } from './rows.ts'

export const HINT_BYTES = (1 << LB_HINT_BITS) / 8

export class Hints {
  readonly #words: Int32Array
  /** Keys of the maps by bit. */
  readonly #users = new Map<number, number>()

  constructor(memory: ArrayBuffer) {
    this.#words = new Int32Array(memory, 0, HINT_BYTES / 4)
  }

  /** There are these keys and no others, as an agent finds that takes over. */
  adopt(keys: Iterable<Frontend>): void {
    for (const key of keys) this.add(key)
    for (let bit = 0; bit < HINT_BYTES * 8; bit++) if (!this.#users.has(bit)) this.#clear(bit)
  }

  /** Before the key is written. */
  add(key: Frontend): void {
    const bit = bitOf(key)
    this.#users.set(bit, (this.#users.get(bit) ?? 0) + 1)
    Atomics.or(this.#words, bit >>> 5, 1 << (bit & 31))
  }

  /** After the key has gone. */
  remove(key: Frontend): void {
    const bit = bitOf(key)
    const left = (this.#users.get(bit) ?? 0) - 1
    if (left > 0) return void this.#users.set(bit, left)
    this.#users.delete(bit)
    this.#clear(bit)
  }

  #clear(bit: number): void {
    Atomics.and(this.#words, bit >>> 5, ~(1 << (bit & 31)))
  }
}

/** As lb_hinted() of bpf/src/lb_maps.h, where address and port are what stands in the packet, read as little-endian. */
export function bitOf({ address, port, protocol }: Frontend): number {
  const bytes = addressBytes(address)
  let brief = 0
  for (let at = 0; at < bytes.length; at += 4) brief ^= bytes.readInt32LE(at)
  const swapped = ((port & 255) << 8) | (port >> 8)
  const hash = Math.imul(Math.imul(brief, LB_HINT_MIX) ^ ((swapped << 8) | PROTOCOLS[protocol]), LB_HINT_FINISH)
  return hash >>> (32 - LB_HINT_BITS)
}
