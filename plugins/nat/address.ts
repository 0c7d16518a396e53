/** Addresses and blocks as they come over the wire, checked and in the spelling of nft. */
import { badRequest } from '../../core/errors.ts'
import { contains, type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'

const prefix = (text: string): Prefix => {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError(`not a prefix: ${text}`)
  return parsed
}

/** Where no connection goes to, or none that could be translated: RFC 1122 §3.2.1.3, RFC 4291 §2.4 and §2.5. */
const UNFIT: readonly (readonly [Prefix, string])[] = [
  [prefix('0.0.0.0/8'), 'is in 0.0.0.0/8, which nobody has'],
  [prefix('127.0.0.0/8'), 'is a loopback address, which never leaves its host'],
  [prefix('224.0.0.0/3'), 'is a multicast or reserved address'],
  [prefix('::/96'), 'is unspecified, loopback or IPv4-compatible: nobody is reached by it'],
  [prefix('::ffff:0:0/96'), 'is IPv4-mapped: write the IPv4 address'],
  [prefix('fe80::/10'), 'is link-local and means nothing without a device'],
  [prefix('ff00::/8'), 'is a multicast address'],
]

/** One address. @throws ApiError 400 naming `field` */
export function readAddress(text: string, field: string): Prefix {
  const parsed = text.includes('/') ? undefined : parsePrefix(text)
  if (parsed === undefined) throw badRequest(`${field}: not an IP address`)
  const unfit = UNFIT.find(([block]) => contains(block, parsed))
  if (unfit) throw badRequest(`${field}: ${unfit[1]}`)
  return parsed
}

/** A block of sources with host bits cleared (D19, as for rules). @throws ApiError 400 naming `field` */
export function readBlock(text: string, field: string): Prefix {
  const parsed = text.includes('/') ? parsePrefix(text) : undefined
  if (parsed === undefined) throw badRequest(`${field}: not a CIDR such as 10.0.0.0/24`)
  const unfit = UNFIT.find(([block]) => contains(block, parsed))
  if (unfit) throw badRequest(`${field}: ${unfit[1]}`)
  return parsed
}

/** With its length, also where that is one address. */
export const cidrOf = ({ text, length }: Prefix): string => (text.includes('/') ? text : `${text}/${length}`)

/** First and last address, sortable as text: family, then hex. */
export function boundsOf({ family, bytes, length }: Prefix): { first: string; last: string } {
  const last = bytes.map((byte, at) => byte | (0xff >> Math.min(8, Math.max(0, length - at * 8))))
  const text = (all: readonly number[]) => `${family}${Buffer.from(all).toString('hex')}`
  return { first: text(bytes), last: text(last) }
}

/** The CIDRs of every wider block around this one. */
export function wider({ family, bytes, length }: Prefix): string[] {
  const address = family === 4 ? bytes.join('.') : Buffer.from(bytes).toString('hex').match(/.{4}/g)?.join(':')
  return Array.from({ length }, (_, bits) => cidrOf(prefix(`${address}/${bits}`)))
}
