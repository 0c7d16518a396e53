/** IPv4 addresses as whole numbers, and the MAC addresses that follow from them. */
import { parseMac, parsePrefix } from '../../dataplane/nft/text.ts'

/** A block of addresses, both ends included. */
export type Block = {
  first: number
  last: number
}

/** The number of an address; undefined when it is none of IPv4 in dotted quads. */
export function parseIp(text: string): number | undefined {
  const prefix = text.includes('/') ? undefined : parsePrefix(text)
  return prefix?.family === 4 ? toNumber(prefix.bytes) : undefined
}

/** A CIDR; says what is wrong with it where it is none. Host bits are refused, not cleared (D19). */
export function parseBlock(text: string): (Block & { length: number }) | string {
  const prefix = text.includes('/') ? parsePrefix(text) : undefined
  if (prefix === undefined) return 'not a CIDR such as 10.0.0.0/24'
  if (prefix.family !== 4) return 'must be IPv4'
  const first = toNumber(prefix.bytes)
  const block = { first, last: first + 2 ** (32 - prefix.length) - 1 }
  if (parseIp(text.slice(0, text.indexOf('/'))) !== first) return `has host bits set: the block is ${blockText(block)}`
  return { ...block, length: prefix.length }
}

export const ipText = (ip: number): string => `${ip >>> 24}.${(ip >>> 16) & 255}.${(ip >>> 8) & 255}.${ip & 255}`
export const lengthOf = ({ first, last }: Block): number => 32 - Math.log2(last - first + 1)
export const blockText = (block: Block): string => `${ipText(block.first)}/${lengthOf(block)}`
export const meet = (a: Block, b: Block): boolean => a.first <= b.last && b.first <= a.last

/** `02:ce:` and the four octets: the MAC of an endpoint that was given none. */
export function defaultMac(ip: number): string {
  const hex = ip.toString(16).padStart(8, '0')
  return `02:ce:${hex.slice(0, 2)}:${hex.slice(2, 4)}:${hex.slice(4, 6)}:${hex.slice(6)}`
}

/** The address whose default MAC this is; undefined when it is nobody's. `mac` is canonical. */
export function ipOfDefaultMac(mac: string): number | undefined {
  return mac.startsWith('02:ce:') ? Number.parseInt(mac.slice(6).replaceAll(':', ''), 16) : undefined
}

/** A MAC that a NIC may have, canonical; says what is wrong with it where it is none. */
export function readMac(text: string): { mac: string } | string {
  const mac = parseMac(text)
  if (mac === undefined) return 'not a MAC address'
  // The group bit of IEEE 802 is the lowest of the first octet.
  if ((Number.parseInt(mac.slice(0, 2), 16) & 1) === 1) return `${mac} is a multicast address`
  return mac === '00:00:00:00:00:00' ? `${mac} is no address of a NIC` : { mac }
}

/** For what was read before it was stored. */
export function certain<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError('a stored address cannot be read: the row was changed behind the agent')
  return value
}

function toNumber(bytes: readonly number[]): number {
  return bytes.reduce((sum, byte) => sum * 256 + byte, 0)
}
