/** Addresses of other machines, as operators write them. Pure. */
import { contains, type Prefix, parsePrefix } from '../dataplane/nft/text.ts'
import { badRequest } from './errors.ts'

const prefix = (text: string): Prefix => {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError(`not a prefix: ${text}`)
  return parsed
}

/** What no other machine can be reached by: RFC 1122 §3.2.1.3, RFC 4291 §2.4 and §2.5. */
const UNFIT: readonly (readonly [Prefix, string])[] = [
  [prefix('0.0.0.0/8'), 'is in 0.0.0.0/8, which nobody has'],
  [prefix('127.0.0.0/8'), 'is a loopback address, which never leaves its host'],
  [prefix('224.0.0.0/3'), 'is a multicast or reserved address'],
  [prefix('::/96'), 'is unspecified, loopback or IPv4-compatible: nobody is reached by it'],
  [prefix('::ffff:0:0/96'), 'is IPv4-mapped: write the IPv4 address'],
  [prefix('fe80::/10'), 'is link-local and means nothing without a device'],
  [prefix('ff00::/8'), 'is a multicast address'],
]

/** Why no other machine can have an address, or one of this block; undefined when it can. */
export const whyUnfit = (block: Prefix): string | undefined => UNFIT.find(([unfit]) => contains(unfit, block))?.[1]

/** The address of one other machine, canonical. @throws ApiError 400 naming `field` */
export function readAddress(text: string, field: string): Prefix {
  const parsed = text.includes('/') ? undefined : parsePrefix(text)
  if (parsed === undefined) throw badRequest(`${field}: not an IP address`)
  const unfit = whyUnfit(parsed)
  if (unfit) throw badRequest(`${field}: ${unfit}`)
  return parsed
}
