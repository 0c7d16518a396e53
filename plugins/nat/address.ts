/** Addresses and blocks as they come over the wire, checked and in the spelling of nft. */
import { whyUnfit } from '../../core/addresses.ts'
import { badRequest } from '../../core/errors.ts'
import { type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'

const prefix = (text: string): Prefix => {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError(`not a prefix: ${text}`)
  return parsed
}

/** A block of sources with host bits cleared (D19, as for rules). @throws ApiError 400 naming `field` */
export function readBlock(text: string, field: string): Prefix {
  const parsed = text.includes('/') ? parsePrefix(text) : undefined
  if (parsed === undefined) throw badRequest(`${field}: not a CIDR such as 10.0.0.0/24`)
  const unfit = whyUnfit(parsed)
  if (unfit) throw badRequest(`${field}: ${unfit}`)
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
