/**
 * A rule as the words of its cell (struct filter_rule4 and 6 of bpf/src/classify_family.h), and back. Addresses stand in
 * network order, read as little-endian words, which is how the program sees them too.
 */
import { type Prefix, prefixOf } from '../../nft/text.ts'
import { RULE_ACCEPT, RULE_FRESH, RULE_MAC } from '../../numbers.ts'
import type { FilterMatch, FilterRule, FilterWindow } from './entries.ts'

/** One rule's words; 16 for IPv4, 32 for IPv6. */
export type Image = Uint32Array
export type Family = 4 | 6

/** Words of an address, of a cell. */
export const addressWords = (family: Family): number => (family === 4 ? 1 : 4)
export const cellWords = (family: Family): number => (family === 4 ? 16 : 32)

/** Lengths of prefixes by which tables tell addresses apart. */
export const LENGTHS: Readonly<Record<Family, readonly number[]>> = {
  4: [0, 8, 12, 16, 20, 24, 28, 32],
  6: [0, 16, 32, 40, 48, 56, 64, 128],
}

/** Where a word or half-word stands in an image. */
export const RANK_LOW = 0
export const RANK_HIGH = 1
export const FROM = 2
export const UNTIL = 3
export const HITS = 4
export const WINDOW = 5
const ID_LOW = 6
const ID_HIGH_DEVICE = 7
const PORTS = 8
const LAST_PROTOCOL_FLAGS = 9
export const MAC_LOW = 10
export const MAC_HIGH = 11
export const ADDRESSES = 12

const PROTOCOLS = { icmp: 1, tcp: 6, udp: 17 } as const
const ANY_LAST = 0xffff
/** Beside the MAC address, where the program does not look: the rule has a source, a destination, if only 0.0.0.0/0. */
const GIVEN = [1 << 16, 1 << 17] as const

/** The families of packets that a rule can decide. */
export function familiesOf({ protocol, source, dest }: FilterMatch): readonly Family[] {
  const family = source?.family ?? dest?.family
  if (family !== undefined) return [family]
  return protocol === 'icmp' ? [4] : [4, 6]
}

/** The image of a rule that is in force always; `device` is the number of its interface, 0 for any. */
export function imageOf(rule: FilterRule, family: Family, device: number): Image {
  const { id, rank, accept, fresh, match } = rule
  const image = new Uint32Array(cellWords(family))
  const [level, priority, tie] = rank
  image[RANK_LOW] = tie % 2 ** 32
  image[RANK_HIGH] = level * 2 ** 29 + priority * 2 ** 9 + Math.floor(tie / 2 ** 32)
  image[ID_LOW] = id % 2 ** 32
  image[ID_HIGH_DEVICE] = Math.floor(id / 2 ** 32) | (device << 16)
  const [first, last] = match.destPorts ?? [0, ANY_LAST]
  image[PORTS] = (match.sourcePort ?? 0) | (first << 16)
  const flags = (accept ? RULE_ACCEPT : 0) | (fresh ? RULE_FRESH : 0) | (match.mac ? RULE_MAC : 0)
  image[LAST_PROTOCOL_FLAGS] = last | ((match.protocol ? PROTOCOLS[match.protocol] : 0) << 16) | (flags << 24)
  const [low, high] = match.mac === undefined ? [0, 0] : macWords(match.mac)
  image[MAC_LOW] = low
  image[MAC_HIGH] = high | (match.source ? GIVEN[0] : 0) | (match.dest ? GIVEN[1] : 0)
  const width = addressWords(family)
  for (const at of [0, 1] as const) {
    const prefix = at === 0 ? match.source : match.dest
    if (prefix === undefined) continue
    for (let i = 0; i < width; i++) {
      image[ADDRESSES + at * width + i] = wordAt(prefix.bytes, i)
      image[ADDRESSES + (2 + at) * width + i] = maskWord(prefix.length, i)
    }
  }
  return image
}

/** The rule of an image; the window is read elsewhere. `device` is the name behind the image's number. */
export function ruleOf(
  image: Image,
  family: Family,
  key: string,
  device: string | undefined,
  window: FilterWindow | undefined,
): FilterRule {
  const tail = word(image, LAST_PROTOCOL_FLAGS)
  const flags = tail >>> 24
  const [first, last] = destPorts(image)
  const protocol = protocolName((tail >>> 16) & 0xff)
  const source = prefixAt(image, family, 0)
  const dest = prefixAt(image, family, 1)
  return {
    kind: 'filter',
    key,
    id: idOf(image),
    rank: rankOf(image),
    accept: (flags & RULE_ACCEPT) !== 0,
    ...(flags & RULE_FRESH && { fresh: true }),
    match: {
      ...(protocol && { protocol }),
      ...(source && { source }),
      ...(dest && { dest }),
      ...(sourcePort(image) && { sourcePort: sourcePort(image) }),
      ...((first !== 0 || last !== ANY_LAST) && { destPorts: [first, last] as const }),
      ...(device !== undefined && { interface: device }),
      ...(flags & RULE_MAC && { mac: macText(word(image, MAC_LOW), word(image, MAC_HIGH)) }),
    },
    ...(window && { window }),
  }
}

export const word = (image: Image, at: number): number => image[at] ?? 0
/** The id of an image, of that which begins at word `at`. */
export const idOf = (image: Image, at = 0): number =>
  (word(image, at + ID_HIGH_DEVICE) & 0xffff) * 2 ** 32 + word(image, at + ID_LOW)
export const deviceOf = (image: Image): number => word(image, ID_HIGH_DEVICE) >>> 16
export const sourcePort = (image: Image): number => word(image, PORTS) & 0xffff
export const destPorts = (image: Image): [first: number, last: number] => [
  word(image, PORTS) >>> 16,
  word(image, LAST_PROTOCOL_FLAGS) & 0xffff,
]
export const hasMac = (image: Image): boolean => ((word(image, LAST_PROTOCOL_FLAGS) >>> 24) & RULE_MAC) !== 0
export const isFresh = (image: Image): boolean => ((word(image, LAST_PROTOCOL_FLAGS) >>> 24) & RULE_FRESH) !== 0

/** Below 0 when the first stands before the second. */
export function compareRank(a: Image, b: Image): number {
  return word(a, RANK_HIGH) - word(b, RANK_HIGH) || word(a, RANK_LOW) - word(b, RANK_LOW)
}

/** As one number of 64 bits, as tables hold the best. */
export const rank64 = (image: Image): bigint => (BigInt(word(image, RANK_HIGH)) << 32n) | BigInt(word(image, RANK_LOW))

function rankOf(image: Image): [number, number, number] {
  const high = word(image, RANK_HIGH)
  return [high >>> 29, (high >>> 9) & 0xfffff, (high & 0x1ff) * 2 ** 32 + word(image, RANK_LOW)]
}

/** Length of the prefix that an image asks for: of the source (0), of the destination (1). */
export function prefixLength(image: Image, family: Family, which: 0 | 1): number {
  const width = addressWords(family)
  let length = 0
  for (let i = 0; i < width; i++) length += ones(word(image, ADDRESSES + (2 + which) * width + i))
  return length
}

/** The words of a mask of `length` bits, of an address of `width` words. */
export const maskWords = (length: number, width: number): number[] =>
  Array.from({ length: width }, (_, at) => maskWord(length, at))

function maskWord(length: number, at: number): number {
  const bits = Math.min(32, Math.max(0, length - 32 * at))
  return swapped(bits === 0 ? 0 : (0xffffffff << (32 - bits)) >>> 0)
}

function prefixAt(image: Image, family: Family, which: 0 | 1): Prefix | undefined {
  if ((word(image, MAC_HIGH) & GIVEN[which]) === 0) return undefined
  const width = addressWords(family)
  const words = image.subarray(ADDRESSES + which * width, ADDRESSES + (which + 1) * width)
  const bytes = [...words].flatMap((it) => [it & 0xff, (it >>> 8) & 0xff, (it >>> 16) & 0xff, it >>> 24])
  return prefixOf(bytes, prefixLength(image, family, which))
}

function wordAt(bytes: readonly number[], i: number): number {
  const at = 4 * i
  const upper = ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24)
  return ((bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | upper) >>> 0
}

/** The two words of `aa:bb:cc:dd:ee:ff`. */
export function macWords(mac: string): [low: number, high: number] {
  const bytes = mac.split(':').map((part) => Number.parseInt(part, 16))
  return [wordAt(bytes, 0), (bytes[4] ?? 0) | ((bytes[5] ?? 0) << 8)]
}

function macText(low: number, high: number): string {
  const bytes = [low & 0xff, (low >>> 8) & 0xff, (low >>> 16) & 0xff, low >>> 24, high & 0xff, (high >>> 8) & 0xff]
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(':')
}

function protocolName(number: number): keyof typeof PROTOCOLS | undefined {
  if (number === PROTOCOLS.tcp) return 'tcp'
  if (number === PROTOCOLS.udp) return 'udp'
  return number === PROTOCOLS.icmp ? 'icmp' : undefined
}

/** How many bits are set. */
function ones(value: number): number {
  const pairs = value - ((value >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

const swapped = (value: number): number =>
  (((value & 0xff) << 24) | ((value & 0xff00) << 8) | ((value >>> 8) & 0xff00) | (value >>> 24)) >>> 0
