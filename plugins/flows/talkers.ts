/**
 * What each address has said and heard. A million of them as objects would stop the event loop whenever the collector walks
 * over them; here they are numbers in tables outside its heap, which are many, so that each is small when it grows.
 */
import { inSlices } from '../../core/slices.ts'
import { addressText } from '../../dataplane/netlink/inet.ts'
import type { Stats } from './schemas.ts'

export type Talker = Stats['top_talkers'][number]

/** For each family. */
const TABLES = 128
const FIRST_SIZE = 16
/** Share of a table that is used when it grows. */
const FULL = 0.75

export class Talkers {
  readonly #v4 = Array.from({ length: TABLES }, () => new Table(1))
  readonly #v6 = Array.from({ length: TABLES }, () => new Table(4))

  /** A flow of an address. */
  add(ip: string, packets: number, bytes: number): void {
    const words = wordsOf(ip)
    const hash = hashOf(words, 0, words.length)
    const tables = words.length === 1 ? this.#v4 : this.#v6
    tables[tableOf(hash)]?.add(words, hash, packets, bytes)
  }

  /** The `many` with most packets, the greatest first; in slices. */
  async top(many: number): Promise<Talker[]> {
    let top: Talker[] = []
    await inSlices([...this.#v4, ...this.#v6], (table) => {
      for (const talker of table.above(() => (top.length < many ? undefined : top.at(-1)))) {
        top = [...top, talker].sort(order).slice(0, many)
      }
    })
    return top
  }
}

/** A hash table with open addresses and linear search. */
class Table {
  readonly #width: number
  #count = 0
  #size = FIRST_SIZE
  #keys: Uint32Array
  #packets = new Float64Array(FIRST_SIZE)
  #bytes = new Float64Array(FIRST_SIZE)
  /** 0 where nothing is. */
  #flows = new Uint32Array(FIRST_SIZE)

  constructor(width: number) {
    this.#width = width
    this.#keys = new Uint32Array(FIRST_SIZE * width)
  }

  add(words: Uint32Array, hash: number, packets: number, bytes: number): void {
    if (this.#count >= this.#size * FULL) this.#grow()
    const at = this.#find(words, 0, hash)
    if (this.#flows[at] === 0) {
      this.#keys.set(words, at * this.#width)
      this.#count++
    }
    this.#put(at, packets, bytes, 1)
  }

  /** Those that come before the last one that counts, which may become another meanwhile. */
  *above(last: () => Talker | undefined): Generator<Talker> {
    for (let at = 0; at < this.#size; at++) {
      if (this.#flows[at] === 0) continue
      const least = last()
      if (least !== undefined && (this.#packets[at] ?? 0) < least.packets) continue
      const talker = this.#talker(at)
      if (least === undefined || order(talker, least) < 0) yield talker
    }
  }

  #talker(at: number): Talker {
    const key = Buffer.alloc(this.#width * 4)
    for (let word = 0; word < this.#width; word++) key.writeUInt32BE(this.#keys[at * this.#width + word] ?? 0, word * 4)
    const [packets, bytes, flows] = [this.#packets[at] ?? 0, this.#bytes[at] ?? 0, this.#flows[at] ?? 0]
    return { ip: addressText(key), packets, bytes, flows }
  }

  #put(at: number, packets: number, bytes: number, flows: number): void {
    this.#packets[at] = (this.#packets[at] ?? 0) + packets
    this.#bytes[at] = (this.#bytes[at] ?? 0) + bytes
    this.#flows[at] = (this.#flows[at] ?? 0) + flows
  }

  /** Where a key is, or has its place. */
  #find(words: Uint32Array, from: number, hash: number): number {
    let at = hash & (this.#size - 1)
    while (this.#flows[at] !== 0 && !this.#is(at, words, from)) at = (at + 1) & (this.#size - 1)
    return at
  }

  #is(at: number, words: Uint32Array, from: number): boolean {
    for (let word = 0; word < this.#width; word++) {
      if (this.#keys[at * this.#width + word] !== words[from + word]) return false
    }
    return true
  }

  #grow(): void {
    const [size, keys, packets, bytes, flows] = [this.#size, this.#keys, this.#packets, this.#bytes, this.#flows]
    this.#size = size * 2
    this.#keys = new Uint32Array(this.#size * this.#width)
    this.#packets = new Float64Array(this.#size)
    this.#bytes = new Float64Array(this.#size)
    this.#flows = new Uint32Array(this.#size)
    for (let old = 0; old < size; old++) {
      if (flows[old] === 0) continue
      const from = old * this.#width
      const at = this.#find(keys, from, hashOf(keys, from, this.#width))
      this.#keys.set(keys.subarray(from, from + this.#width), at * this.#width)
      this.#put(at, packets[old] ?? 0, bytes[old] ?? 0, flows[old] ?? 0)
    }
  }
}

/** Canonical text of an address as it lies in a table: one number of IPv4, four of IPv6. Good until the next is asked for. */
function wordsOf(ip: string): Uint32Array {
  return ip.includes(':') ? words6(ip) : words4(ip)
}

const [FOUR, SIX] = [new Uint32Array(1), new Uint32Array(4)]

function words4(ip: string): Uint32Array {
  let [word, part] = [0, 0]
  for (let n = 0; n < ip.length; n++) {
    const code = ip.charCodeAt(n)
    if (code !== DOT) part = part * 10 + code - ZERO
    else {
      word = (word << 8) | part
      part = 0
    }
  }
  FOUR[0] = (word << 8) | part
  return FOUR
}

const [DOT, ZERO] = ['.', '0'].map((it) => it.charCodeAt(0)) as [number, number]

/** RFC 5952; `::` stands for the groups that are missing. */
function words6(ip: string): Uint32Array {
  const [head = '', tail] = ip.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  SIX.fill(0)
  const put = (text: string, group: number) => {
    SIX[group >> 1] = (SIX[group >> 1] ?? 0) | (Number.parseInt(text, 16) << (group & 1 ? 0 : 16))
  }
  for (const [n, text] of before.entries()) put(text, n)
  for (const [n, text] of after.entries()) put(text, 8 - after.length + n)
  return SIX
}

/**
 * By the logarithm the last table gets twice as much as the first: they reach the size at which they grow one after the
 * other, where equal ones would grow together.
 */
const tableOf = (hash: number): number => Math.floor(Math.log2(1 + hash / 2 ** 32) * TABLES)

/** FNV-1a by words, mixed: the highest bits choose the table, the lowest the place in it. */
function hashOf(words: Uint32Array, from: number, width: number): number {
  let value = 0x811c9dc5
  for (let n = from; n < from + width; n++) {
    value = Math.imul(value ^ (words[n] ?? 0), 0x01000193)
    value = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d)
  }
  value = Math.imul(value ^ (value >>> 12), 0x297a2d39)
  return (value ^ (value >>> 15)) >>> 0
}

const order = (a: Talker, b: Talker): number => b.packets - a.packets || b.bytes - a.bytes || (a.ip < b.ip ? -1 : 1)
