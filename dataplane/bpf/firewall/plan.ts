/**
 * Chooses the masks of tables for a set of rules, so that few tables and short runs hold them all: again and again the
 * mask that takes in most of the rules that are left, with at most RUN_LIMIT in a run. Pure.
 */
import { FILTER_MIX } from '../../numbers.ts'
import {
  ADDRESSES,
  addressWords,
  cellWords,
  deviceOf,
  type Family,
  LENGTHS,
  MAC_LOW,
  sourcePort,
  word,
} from './image.ts'
import { EVERYTHING, fits, type KeyMask, keyMask, type Mask, type Shape, shapeOf } from './mask.ts'

/** Rules that a packet is compared with one by one: more only where nothing else tells them apart. */
export const RUN_LIMIT = 8
/** What is left then is filed rule by rule. */
export const MOST_TABLES = 16

interface Rules {
  shapes: readonly Shape[]
  /** Words of the addresses of each, source first. */
  addresses: Uint32Array
  /** What else keys are made of. */
  sourcePorts: Uint32Array
  macs: Uint32Array
  devices: Uint32Array
  width: number
}

interface Candidate {
  mask: KeyMask
  /** How many rules it took in when that was last counted; it can only have become less. */
  takes: number
}

/** `images`: those of all rules, one after the other. */
export function plan(images: Uint32Array, family: Family): Mask[] {
  const rules = read(images, family)
  const count = rules.shapes.length
  // A few runs share a counter, and then seem to be full too early: that costs a little room, and no more.
  const counters = new Uint8Array(2 ** Math.max(10, 34 - Math.clz32(count)))
  const candidates = masks(family).map((mask): Candidate => ({ mask: keyMask(mask, family), takes: count }))
  const chosen: Mask[] = []
  let left: Uint32Array = Uint32Array.from({ length: count }, (_, i) => i)
  while (left.length > 0 && chosen.length < MOST_TABLES) {
    const best = mostTaking(candidates, (mask) => file(rules, left, mask, counters).taken)
    if (best === undefined) break
    left = file(rules, left, best.mask, counters).rest
    chosen.push(best.mask)
    best.takes = 0
  }
  return chosen
}

function read(images: Uint32Array, family: Family): Rules {
  const [size, width] = [cellWords(family), addressWords(family)]
  const all = Array.from({ length: images.length / size }, (_, i) => images.subarray(i * size, (i + 1) * size))
  const addresses = new Uint32Array(all.length * 2 * width)
  for (const [i, image] of all.entries()) {
    addresses.set(image.subarray(ADDRESSES, ADDRESSES + 2 * width), i * 2 * width)
  }
  return {
    shapes: all.map((image) => shapeOf(image, family)),
    addresses,
    sourcePorts: Uint32Array.from(all, sourcePort),
    macs: Uint32Array.from(all, (image) => word(image, MAC_LOW)),
    devices: Uint32Array.from(all, deviceOf),
    width,
  }
}

/** The candidate that takes in most; counted anew only as long as another might take in more. */
function mostTaking(candidates: Candidate[], count: (mask: KeyMask) => number): Candidate | undefined {
  for (;;) {
    candidates.sort((a, b) => b.takes - a.takes)
    const [first, second] = candidates
    if (first === undefined || first.takes === 0) return undefined
    first.takes = count(first.mask)
    if (first.takes > 0 && first.takes >= (second?.takes ?? 0)) return first
  }
}

/** How many of `left` a table of this mask takes in, and which not. */
function file(
  rules: Rules,
  left: Uint32Array,
  mask: KeyMask,
  counters: Uint8Array,
): { taken: number; rest: Uint32Array } {
  const rest = new Uint32Array(left.length)
  const limit = counters.length - 1
  let kept = 0
  counters.fill(0)
  for (const rule of left) {
    const shape = rules.shapes[rule]
    const at = shape && fits(shape, mask) ? hash(rules, rule, mask, shape.first) & limit : -1
    const count = counters[at] ?? RUN_LIMIT
    if (count >= RUN_LIMIT) rest[kept++] = rule
    else counters[at] = count + 1
  }
  return { taken: left.length - kept, rest: rest.slice(0, kept) }
}

function hash(rules: Rules, rule: number, mask: KeyMask, destPort: number): number {
  const { addresses, width } = rules
  let value = mask.destPort === 0 ? 0 : destPort
  for (let i = 0; i < width; i++) {
    const at = rule * 2 * width + i
    value = mix(value, word(addresses, at) & word(mask.words, i))
    value = mix(value, word(addresses, at + width) & word(mask.words, 4 + i))
  }
  if (mask.sourcePort) value = mix(value, word(rules.sourcePorts, rule))
  if (mask.mac) value = mix(value, word(rules.macs, rule))
  if (mask.device) value = mix(value, word(rules.devices, rule))
  return value ^ (value >>> 13)
}

function mix(value: number, next: number): number {
  const product = Math.imul(value ^ next, FILTER_MIX)
  return product ^ (product >>> 15)
}

function masks(family: Family): Mask[] {
  const lengths = LENGTHS[family]
  const [whole = 0] = lengths.slice(-1)
  const out: Mask[] = []
  for (const source of lengths) {
    for (const dest of lengths) {
      for (const destPort of [0, 16] as const) out.push({ ...EVERYTHING, source, dest, destPort })
    }
  }
  for (const destPort of [0, 16] as const) {
    out.push({ ...EVERYTHING, mac: true, destPort })
    for (const end of [0, whole]) out.push({ ...EVERYTHING, sourcePort: true, source: end, destPort })
    for (const dest of lengths) out.push({ ...EVERYTHING, device: true, dest, destPort })
  }
  return out
}
