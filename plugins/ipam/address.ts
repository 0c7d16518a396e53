/** Addresses of both families as hex of fixed length: sortable as text, and never a number too large for JavaScript. */
import { type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'

export type Family = 4 | 6
export interface Address {
  family: Family
  hex: string
}

/** A block of addresses, as `parseSubnet` reads it. */
export interface Subnet {
  family: Family
  length: number
  /** Canonical, always with its length: `10.0.0.7/32`. */
  text: string
  first: string
  last: string
}

const WIDTH = { 4: 32, 6: 128 } as const
const hexOf = (bytes: readonly number[]): string => bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')

/** An address without a length; undefined when it is none. */
export function parseAddress(input: string): Address | undefined {
  const prefix = input.includes('/') ? undefined : parsePrefix(input)
  return prefix && { family: prefix.family, hex: hexOf(prefix.bytes) }
}

/** A CIDR; says what is wrong with it where it is none. Host bits are refused, not cleared (D19). */
export function parseSubnet(input: string): Subnet | string {
  const prefix = input.includes('/') ? parsePrefix(input) : undefined
  if (prefix === undefined) return 'not a CIDR such as 10.0.0.0/24 or fd00::/64'
  const { family, length, bytes } = prefix
  const text = `${prefix.text.split('/', 1)[0]}/${length}`
  const address = parsePrefix(input.slice(0, input.indexOf('/')))
  if (address === undefined || hexOf(address.bytes) !== hexOf(bytes)) return `has host bits set: the block is ${text}`
  return { family, length, text, first: hexOf(bytes), last: lastOf(prefix) }
}

/** Canonical text of an address (RFC 5952 for IPv6). */
export function textOf(hex: string): string {
  if (hex.length === 8) return [0, 2, 4, 6].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)).join('.')
  const text = parsePrefix(hex.replace(/(....)(?=.)/g, '$1:'))?.text
  if (text === undefined) throw new TypeError(`not an address: ${JSON.stringify(hex)}`)
  return text
}

/** The address `by` above `hex`; '' when there is none, which equals no address. */
export function moved(hex: string, by: 1n | -1n): string {
  const value = BigInt(`0x${hex}`) + by
  if (value < 0n) return ''
  const text = value.toString(16).padStart(hex.length, '0')
  return text.length > hex.length ? '' : text
}

/**
 * First and last host address. IPv4 leaves out network and broadcast address, IPv6 the subnet-router anycast address
 * (RFC 4291 §2.6.1, D48); blocks of one or two addresses are all hosts (RFC 3021, RFC 6164).
 */
export function hostsOf({ family, length, first, last }: Subnet): { first: string; last: string } {
  if (length >= WIDTH[family] - 1) return { first, last }
  return { first: moved(first, 1n), last: family === 4 ? moved(last, -1n) : last }
}

function lastOf({ bytes, length }: Prefix): string {
  return hexOf(bytes.map((byte, at) => byte | (0xff >> Math.min(8, Math.max(0, length - at * 8)))))
}
