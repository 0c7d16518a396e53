/**
 * Finished answers. They lie one behind the other in one block of memory that is written round and round, so their number
 * and size are bounded, nothing is left to the garbage collector, and an attacker who asks for many names displaces the
 * oldest. An answer counts as long as its zone has the generation that it was made from.
 *
 * In the block: key size (u16), body size (u16), flags and counts as in a header (8), key, body.
 */
import { randomInt } from 'node:crypto'
import type { Answer } from './answer.ts'
import type { Zone } from './zones.ts'

const SLOTS = 1 << 16
/** A key may be in one of so many slots that follow each other. */
const WAYS = 4
const BLOCK = 8 << 20
/** What is larger is made anew each time. */
const LARGEST = 4096
const HEAD = 12

export interface Cache {
  /**
   * Where in `block` the answer to the key (its first `size` octets) begins, with hash `hash`; -1: not known, or no more
   * true at `now` (seconds since the epoch).
   */
  find(key: Uint8Array, size: number, hash: number, now: () => number): number
  add(key: Uint8Array, size: number, hash: number, answer: Answer & { zone: Zone }): void
  readonly block: Buffer
  /** Where a hash of keys begins: another one in every process. */
  readonly seed: number
}

/** Where the parts of a cached answer are. */
export const CACHED = { keySize: 0, bodySize: 2, header: 4, key: HEAD } as const

export function openCache(): Cache {
  const block = Buffer.alloc(BLOCK)
  /** Counts on when the block begins anew. 0: nothing. */
  const places = new Float64Array(SLOTS)
  const hashes = new Int32Array(SLOTS)
  const zones: (Zone | undefined)[] = new Array(SLOTS).fill(undefined)
  const generations = new Float64Array(SLOTS)
  const from = new Float64Array(SLOTS)
  const until = new Float64Array(SLOTS)
  let head = BLOCK

  return {
    block,
    seed: randomInt(2 ** 32),
    find(key, size, hash, now) {
      const first = hash & (SLOTS - WAYS)
      for (let slot = first; slot < first + WAYS; slot++) {
        if (hashes[slot] !== hash || !isThere(slot)) continue
        const at = (places[slot] as number) % BLOCK
        if (isKey(at, key, size)) return isGood(slot, now) ? at : -1
      }
      return -1
    },
    add(key, size, hash, answer) {
      const total = HEAD + size + answer.body.length
      if (answer.body.length > LARGEST) return
      // Never across the end of the block.
      if ((head % BLOCK) + total > BLOCK) head += BLOCK - (head % BLOCK)
      const at = head % BLOCK
      block.writeUInt16LE(size, at)
      block.writeUInt16LE(answer.body.length, at + 2)
      block.writeUInt16BE((answer.authoritative ? 0x8400 : 0x8000) | answer.rcode, at + 4)
      block.writeUInt16BE(answer.answers, at + 6)
      block.writeUInt16BE(answer.authorities, at + 8)
      block.writeUInt16BE(answer.additionals, at + 10)
      block.set(key.subarray(0, size), at + HEAD)
      block.set(answer.body, at + HEAD + size)
      const slot = slotFor(hash)
      hashes[slot] = hash
      places[slot] = head
      zones[slot] = answer.zone
      generations[slot] = answer.zone.generation
      from[slot] = answer.from
      until[slot] = answer.until
      head += total
    },
  }
  /** All of an answer is there until the place where it begins is written over. */
  function isThere(slot: number): boolean {
    const place = places[slot] as number
    return place !== 0 && place >= head - BLOCK
  }

  function isKey(at: number, key: Uint8Array, size: number): boolean {
    if (block.readUInt16LE(at) !== size) return false
    for (let n = 0; n < size; n++) if (block[at + HEAD + n] !== key[n]) return false
    return true
  }

  function isGood(slot: number, now: () => number): boolean {
    if ((zones[slot] as Zone).generation !== generations[slot]) return false
    if (until[slot] === Number.POSITIVE_INFINITY) return true
    // The clock may have been set back.
    const time = now()
    return time >= (from[slot] as number) && time < (until[slot] as number)
  }

  /** That of an older answer to the same hash, else of the oldest answer. */
  function slotFor(hash: number): number {
    const first = hash & (SLOTS - WAYS)
    let oldest = first
    for (let slot = first; slot < first + WAYS; slot++) {
      if (hashes[slot] === hash) return slot
      if ((places[slot] as number) < (places[oldest] as number)) oldest = slot
    }
    return oldest
  }
}
