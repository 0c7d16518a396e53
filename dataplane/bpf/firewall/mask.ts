/** The mask of a table: what of a packet its key is made of; and under which keys of it a rule is filed. */
import { FILTER_FINISH, FILTER_MIX, KEY_DEVICE, KEY_MAC } from '../../numbers.ts'
import {
  ADDRESSES,
  addressWords,
  destPorts,
  deviceOf,
  type Family,
  hasMac,
  type Image,
  MAC_HIGH,
  MAC_LOW,
  maskWords,
  prefixLength,
  sourcePort,
  word,
} from './image.ts'
import { cellsOf, fitsCell, type PortLength, portMask } from './ports.ts'

export interface Mask {
  /** Lengths of the prefixes of the addresses, in bits. */
  source: number
  dest: number
  sourcePort: boolean
  destPort: PortLength
  mac: boolean
  device: boolean
}

/** A mask with what hashing needs of it. */
export interface KeyMask extends Mask {
  /** Words of `struct filter_table`: masks of source and destination, 4 words each, whatever the family. */
  words: Uint32Array
}

/** What decides in which tables a rule can stand. */
export interface Shape extends Omit<Mask, 'destPort'> {
  first: number
  last: number
}

export const EVERYTHING: Mask = { source: 0, dest: 0, sourcePort: false, destPort: 0, mac: false, device: false }

export function keyMask(mask: Mask, family: Family): KeyMask {
  const words = new Uint32Array(8)
  const width = addressWords(family)
  words.set(maskWords(mask.source, width), 0)
  words.set(maskWords(mask.dest, width), 4)
  return { ...mask, words }
}

export const sameMask = (a: Mask, b: Mask): boolean =>
  a.source === b.source &&
  a.dest === b.dest &&
  a.sourcePort === b.sourcePort &&
  a.destPort === b.destPort &&
  a.mac === b.mac &&
  a.device === b.device

export function shapeOf(image: Image, family: Family): Shape {
  const [first, last] = destPorts(image)
  return {
    source: prefixLength(image, family, 0),
    dest: prefixLength(image, family, 1),
    sourcePort: sourcePort(image) !== 0,
    first,
    last,
    mac: hasMac(image),
    device: deviceOf(image) !== 0,
  }
}

/** Whether a table asks for nothing but its destination port that the rule leaves open. */
export const fitsBesidesPort = (shape: Shape, mask: Mask): boolean =>
  mask.source <= shape.source &&
  mask.dest <= shape.dest &&
  (!mask.sourcePort || shape.sourcePort) &&
  (!mask.mac || shape.mac) &&
  (!mask.device || shape.device)

/** Whether one run of the table can hold the whole rule. */
export const fits = (shape: Shape, mask: Mask): boolean =>
  fitsBesidesPort(shape, mask) && fitsCell(shape.first, shape.last, mask.destPort)

/** A destination port of each run of the table in which the rule stands, when it stands there: in parts or whole. */
export const portsIn = ({ first, last }: Shape, mask: Mask): number[] =>
  fitsCell(first, last, mask.destPort) ? [first] : cellsOf(first, last, mask.destPort)

/** What is asked of a hash besides an image: the seed of the settings, the number of the table. */
export interface HashInput {
  seed: number
  table: number
}

/** Hash of the run in which a rule stands for a destination port; as `filter_hash` of bpf/src/classify_family.h. */
export function hashOf(image: Image, family: Family, mask: KeyMask, destPort: number, input: HashInput): number {
  const width = addressWords(family)
  let hash = mix(input.seed, input.table)
  for (let i = 0; i < width; i++) {
    hash = mix(hash, word(image, ADDRESSES + i) & word(mask.words, i))
    hash = mix(hash, word(image, ADDRESSES + width + i) & word(mask.words, 4 + i))
  }
  const ports = ((destPort & portMask(mask.destPort)) << 16) | (mask.sourcePort ? sourcePort(image) : 0)
  hash = mix(hash, ports)
  if (mask.mac) hash = mix(mix(hash, word(image, MAC_LOW)), word(image, MAC_HIGH) & 0xffff)
  if (mask.device) hash = mix(hash, deviceOf(image))
  const last = Math.imul(hash, FILTER_FINISH)
  return (last ^ (last >>> 13)) >>> 0
}

function mix(hash: number, next: number): number {
  const product = Math.imul(hash ^ next, FILTER_MIX)
  return product ^ (product >>> 15)
}

/** The half-words and flags of `struct filter_table` behind its masks. */
export const portWord = (mask: Mask): number => (mask.sourcePort ? 0xffff : 0) | (portMask(mask.destPort) << 16)
export const fieldsWord = (mask: Mask): number => (mask.mac ? KEY_MAC : 0) | (mask.device ? KEY_DEVICE : 0)

/** The mask that the words of a table stand for. */
export function maskOf(words: Uint32Array, ports: number, fields: number): Mask {
  const length = (from: number) =>
    words.subarray(from, from + 4).reduce((sum, it) => sum + it.toString(2).replaceAll('0', '').length, 0)
  const destPort = (ports >>> 16).toString(2).replaceAll('0', '').length as PortLength
  return {
    source: length(0),
    dest: length(4),
    sourcePort: (ports & 0xffff) !== 0,
    destPort,
    mac: (fields & KEY_MAC) !== 0,
    device: (fields & KEY_DEVICE) !== 0,
  }
}
