/**
 * Which backends get new connections, as the programs read it. The ring of the hash algorithms is filled as Maglev's table
 * (Eisenbud and others, NSDI 2016, section 3.4): when a backend comes or goes, next to none but its own share moves.
 */
import { createHash } from 'node:crypto'
import { LB_HASH, LB_LEAST_CONN, LB_RING, LB_ROUND_ROBIN, LB_SOURCE_HASH } from '../../numbers.ts'
import type { Algorithm, VipBackend } from './entries.ts'

/** A backend that gets new connections. */
export interface Live {
  id: string
  place: number
  weight: number
}

/** struct lb_ring: digest, number of live backends, turn, places. */
export const RING_HEAD = 16
/** The C struct ends on a multiple of 8 bytes. */
export const RING_BYTES = Math.ceil((RING_HEAD + LB_RING) / 8) * 8

/** How the programs pick. */
export function pickOf(algorithm: Algorithm): number {
  switch (algorithm) {
    case 'round-robin':
      return LB_ROUND_ROBIN
    case 'least-conn':
      return LB_LEAST_CONN
    case 'source-hash':
      return LB_SOURCE_HASH
    default:
      return LB_HASH
  }
}

export const isLive = ({ state, weight }: VipBackend): boolean => state === 'up' && weight > 0

/** struct lb_ring; the order of `live` does not matter, since two nodes must agree on it. */
export function ringOf(algorithm: Algorithm, live: readonly Live[]): Buffer {
  const sorted = [...live].sort((a, b) => (a.id < b.id ? -1 : 1))
  const ring = Buffer.alloc(RING_BYTES)
  ring.writeBigUInt64LE(digestOf(algorithm, sorted), 0)
  ring.writeUInt32LE(sorted.length, 8)
  const places = ring.subarray(RING_HEAD, RING_HEAD + LB_RING)
  if (pickOf(algorithm) === LB_HASH || pickOf(algorithm) === LB_SOURCE_HASH) places.set(filled(sorted))
  else for (const [at, { place }] of sorted.entries()) places[at] = place
  return ring
}

/** Tables that were filled last. Of many virtual addresses the backends often have the same ids, and so the same table. */
const known = new Map<string, Buffer>()
const KNOWN = 4

function filled(live: readonly Live[]): Buffer {
  const text = textOf(live)
  const places = known.get(text) ?? Buffer.alloc(LB_RING)
  if (!known.delete(text)) fill(places, live)
  known.set(text, places)
  for (const oldest of known.keys()) if (known.size > KNOWN) known.delete(oldest)
  return places
}

const textOf = (live: readonly Live[]): string =>
  JSON.stringify(live.map(({ id, place, weight }) => [id, place, weight]))

/** Tells what a ring was made of. */
export function digestOf(algorithm: Algorithm, live: readonly Live[]): bigint {
  const sorted = [...live].sort((a, b) => (a.id < b.id ? -1 : 1))
  const text = `["${algorithm}",${textOf(sorted)}]`
  return createHash('sha256').update(text).digest().readBigUInt64LE(0)
}

/**
 * Fills a table, whose length is prime, with the places of backends. One takes a turn whenever its accumulated weight has
 * reached the largest one.
 */
export function fill(places: Buffer, live: readonly Live[]): void {
  const { length } = places
  if (live.length === 0) return
  const most = Math.max(...live.map(({ weight }) => weight))
  const next = Uint32Array.from(live, ({ id }) => hash(id, 1) % length)
  const skip = Uint32Array.from(live, ({ id }) => (hash(id, 2) % (length - 1)) + 1)
  const weights = Float64Array.from(live, ({ weight }) => weight)
  const saved = new Float64Array(live.length)
  const taken = new Uint8Array(length)
  for (let filled = 0; filled < length; ) {
    for (let i = 0; i < live.length && filled < length; i++) {
      const has = (saved[i] ?? 0) + (weights[i] ?? 0)
      saved[i] = has < most ? has : has - most
      if (has < most) continue
      const step = skip[i] ?? 1
      let slot = next[i] ?? 0
      while (taken[slot] !== 0) slot = slot + step >= length ? slot + step - length : slot + step
      taken[slot] = 1
      places[slot] = live[i]?.place ?? 0
      next[i] = slot
      filled++
    }
  }
}

/** FNV-1a, finished as MurmurHash3 does so that short names differ in all bits. */
function hash(text: string, seed: number): number {
  let sum = (0x811c9dc5 ^ seed) >>> 0
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 16_777_619) >>> 0
  sum = Math.imul(sum ^ (sum >>> 16), 0x85ebca6b) >>> 0
  sum = Math.imul(sum ^ (sum >>> 13), 0xc2b2ae35) >>> 0
  return (sum ^ (sum >>> 16)) >>> 0
}
