/**
 * Addresses between their canonical text, which the API of this folder speaks, and the bytes of a message.
 * IPv6 text is that of RFC 5952; IPv4 must be four decimal numbers: `1`, `010.0.0.1` and zone ids are refused.
 */
import ipaddr from 'ipaddr.js'
import { WireError } from './attribute.ts'

/** IP version as the API says it; the kernel's number is {@link addressFamily}. */
export type IpVersion = 4 | 6

/** include/linux/socket.h */
export const AF_UNSPEC = 0
export const AF_INET = 2
export const AF_INET6 = 10

export interface Prefix {
  version: IpVersion
  bytes: Buffer
  length: number
}

/** AF_INET or AF_INET6. */
export function addressFamily(version: IpVersion): number {
  return version === 4 ? AF_INET : AF_INET6
}

/** 4 or 6; undefined for every other address family. */
export function ipVersion(family: number): IpVersion | undefined {
  if (family === AF_INET) return 4
  if (family === AF_INET6) return 6
  return undefined
}

/** The 4 or 16 bytes of an address. Throws RangeError when the text is no address. */
export function addressBytes(text: string): Buffer {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return Buffer.from(ipaddr.IPv4.parse(text).toByteArray())
  if (ipaddr.IPv6.isValid(text) && !text.includes('%')) return Buffer.from(ipaddr.IPv6.parse(text).toByteArray())
  throw new RangeError(`not an IP address: ${JSON.stringify(text)}`)
}

/** Canonical text of 4 or 16 bytes. Throws {@link WireError} for any other number of bytes. */
export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.')
  if (bytes.length === 16) return ipaddr.fromByteArray([...bytes]).toString()
  throw new WireError(`IP address of ${bytes.length} bytes`)
}

/** `10.0.0.0/8` or `fd00::/8`; host bits are kept. Throws RangeError. */
export function parsePrefix(text: string): Prefix {
  const [, address = '', digits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  const bytes = address === '' ? Buffer.alloc(0) : addressBytes(address)
  const length = Number(digits)
  if (address === '' || length > bytes.length * 8) throw new RangeError(`not an IP prefix: ${JSON.stringify(text)}`)
  return { version: bytes.length === 4 ? 4 : 6, bytes, length }
}

/** The 6 bytes of `02:00:00:00:00:01`. Throws RangeError. */
export function macBytes(text: string): Buffer {
  if (!/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i.test(text)) throw new RangeError(`not a MAC address: ${JSON.stringify(text)}`)
  return Buffer.from(text.replaceAll(':', ''), 'hex')
}

/** Lower-case text of a MAC; undefined for a link layer whose addresses are not 6 bytes. */
export function macText(bytes: Uint8Array | undefined): string | undefined {
  if (bytes?.length !== 6) return undefined
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':')
}
