/**
 * nft text from parsed values only. libnftables executes whatever stands in its input (a comment with `"; delete table`
 * runs) and resolves host names in address position, so nothing reaches it that did not pass through this file.
 */
import ipaddr from 'ipaddr.js'
import { NFT_FAMILY, NFT_TABLE } from '../numbers.ts'

/** `inet stratum`: what every command names. */
export const TABLE = `${NFT_FAMILY} ${NFT_TABLE}`

/** A parsed address or prefix, as `parsePrefix` returns it. */
export interface Prefix {
  family: 4 | 6
  /** Canonical text: `192.0.2.0/24`, or the bare address when the prefix covers one host. */
  text: string
  /** Network address, host bits cleared. */
  bytes: readonly number[]
  length: number
}

/**
 * Parses `a.b.c.d`, `x::y` or either with `/len`; host bits are cleared (D19). Undefined when unreadable.
 * Only the dotted-quad form of IPv4 is accepted: nft and inet_aton() disagree about `010.1` and `1`.
 */
export function parsePrefix(input: string): Prefix | undefined {
  const slash = input.indexOf('/')
  const address = slash < 0 ? input : input.slice(0, slash)
  if (address.length > 45 || address.includes('%')) return undefined
  const family = ipaddr.IPv4.isValidFourPartDecimal(address) ? 4 : ipaddr.IPv6.isValid(address) ? 6 : undefined
  if (family === undefined || (family === 6 && !address.includes(':'))) return undefined
  const width = family === 4 ? 32 : 128
  const length = slash < 0 ? width : prefixLength(input.slice(slash + 1), width)
  if (length === undefined) return undefined
  const parsed = family === 4 ? ipaddr.IPv4.parse(address) : ipaddr.IPv6.parse(inHex(address))
  const bytes = parsed.toByteArray().map((byte, index) => {
    const kept = Math.min(8, Math.max(0, length - index * 8))
    return byte & (0xff00 >> kept) & 0xff
  })
  return prefixOf(bytes, length)
}

/** The prefix of a network address of 4 or 16 bytes, whose host bits are cleared. */
export function prefixOf(bytes: number[], length: number): Prefix {
  const family = bytes.length === 4 ? 4 : 6
  const text = family === 4 ? bytes.join('.') : canonical6(bytes)
  return { family, text: length === 8 * bytes.length ? text : `${text}/${length}`, bytes, length }
}

/** Writes a dotted tail in hex: ipaddr.js takes `::192.0.2.7` for the IPv4-mapped address, which is another one. */
export function inHex(address: string): string {
  return address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes) => {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(0, 4).map(Number)
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
  })
}

function prefixLength(text: string, width: number): number | undefined {
  if (!/^(0|[1-9][0-9]{0,2})$/.test(text)) return undefined
  const length = Number(text)
  return length <= width ? length : undefined
}

/** RFC 5952 text of 16 bytes. */
function canonical6(bytes: number[]): string {
  return new ipaddr.IPv6(bytes).toRFC5952String()
}

/** True when `address` (same family) lies inside `prefix`. */
export function contains(prefix: Prefix, address: Prefix): boolean {
  if (prefix.family !== address.family || prefix.length > address.length) return false
  const whole = prefix.length >> 3
  for (let i = 0; i < whole; i++) if (prefix.bytes[i] !== address.bytes[i]) return false
  const rest = prefix.length & 7
  if (rest === 0) return true
  const mask = (0xff00 >> rest) & 0xff
  return ((address.bytes[whole] ?? 0) & mask) === prefix.bytes[whole]
}

/** `aa:bb:cc:dd:ee:ff` from colon or dash form in any case (D13). Undefined when unreadable. */
export function parseMac(input: string): string | undefined {
  if (!/^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$/.test(input)) return undefined
  const separator = input[2]
  if ([5, 8, 11, 14].some((at) => input[at] !== separator)) return undefined
  return input.toLowerCase().replaceAll('-', ':')
}

/** A quoted interface name for nft. Throws on anything that the schemas would have refused. */
export function quotedInterface(name: string): string {
  if (!/^[A-Za-z0-9_.-]{1,15}$/.test(name)) throw new TypeError(`not an interface name: ${JSON.stringify(name)}`)
  return `"${name}"`
}

/** Text for an nft comment: our own keys and digests, never an operator's words. */
export function comment(text: string): string {
  if (!/^[A-Za-z0-9 ._/:-]{1,120}$/.test(text)) throw new TypeError(`not a comment of ours: ${JSON.stringify(text)}`)
  return `comment "${text}"`
}

/** 32 bits as nft writes a mask: `0x00ff0000`. */
export const maskText = (bits: number): string => `0x${bits.toString(16).padStart(8, '0')}`
