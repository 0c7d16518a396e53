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
  const four = fourBytes(text)
  if (four !== undefined) return four
  if (ipaddr.IPv6.isValid(text) && !text.includes('%')) return Buffer.from(ipaddr.IPv6.parse(text).toByteArray())
  throw new RangeError(`not an IP address: ${JSON.stringify(text)}`)
}

const [DOT, ZERO] = [0x2e, 0x30]

/** Those of IPv4 text. A start reads some 100,000 of them, which takes a library a second. */
function fourBytes(text: string): Buffer | undefined {
  const bytes = Buffer.allocUnsafe(4)
  let [count, digits, number] = [0, 0, 0]
  for (let at = 0; at <= text.length; at++) {
    const code = at < text.length ? text.charCodeAt(at) : DOT
    if (code === DOT) {
      if (digits === 0) return undefined
      bytes[count++] = number
      digits = number = 0
      continue
    }
    const digit = code - ZERO
    if (digit < 0 || digit > 9 || (digits > 0 && number === 0)) return undefined
    number = number * 10 + digit
    if (number > 255) return undefined
    digits++
  }
  return count === 4 ? bytes : undefined
}

/** Canonical text of 4 or 16 bytes. Throws {@link WireError} for any other number of bytes. */
export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`
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
  let text = HEX[bytes[0] ?? 0] ?? ''
  for (let at = 1; at < 6; at++) text += `:${HEX[bytes[at] ?? 0]}`
  return text
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
