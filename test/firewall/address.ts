/** Addresses as 32-bit words, most significant first: one for IPv4, four for IPv6. */
import { type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'

export type Family = 4 | 6
export type Words = readonly number[]

const WIDTH = { 4: 32, 6: 128 } as const

export const width = (family: Family): number => WIDTH[family]

/** The bits of word `index` that lie inside a prefix of this length. */
export function maskOf(length: number, index: number): number {
  const bits = Math.min(32, Math.max(0, length - 32 * index))
  return bits === 0 ? 0 : (0xffff_ffff << (32 - bits)) >>> 0
}

/** Canonical text where IPv4 is meant; for IPv6 readable, not RFC 5952. */
export function textOf(words: Words): string {
  if (words.length === 1) return bytesOf(words).join('.')
  return words.map((word) => `${(word >>> 16).toString(16)}:${(word & 0xffff).toString(16)}`).join(':')
}

export const bytesOf = (words: Words): number[] =>
  words.flatMap((word) => [word >>> 24, (word >>> 16) & 255, (word >>> 8) & 255, word & 255])

export function wordsOf({ bytes }: Pick<Prefix, 'bytes'>): number[] {
  const words: number[] = []
  for (let at = 0; at < bytes.length; at += 4) {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(at, at + 4)
    words.push(((a << 24) | (b << 16) | (c << 8) | d) >>> 0)
  }
  return words
}

/** The prefix of this length around an address, host bits cleared. */
export function prefixOf(words: Words, length: number): Prefix {
  const prefix = parsePrefix(`${textOf(words)}/${length}`)
  if (prefix === undefined) throw new TypeError(`no prefix: ${textOf(words)}/${length}`)
  return prefix
}

/**
 * Whether a packet from or to this address is routed on like any other: not loopback, multicast, link-local or this network
 * (the kernel has views of its own on those), and not of the test network 198.18.0.0/15, whose addresses the lanes have.
 */
export function routable(words: Words): boolean {
  const [first = 0] = words
  if (words.length === 4) return first >>> 29 === 1
  const top = first >>> 24
  return top > 0 && top < 224 && top !== 127 && first >>> 17 !== ((198 << 7) | 9) && first >>> 16 !== ((169 << 8) | 254)
}
