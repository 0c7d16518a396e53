/** Addresses that can move between nodes, as they are written in the configuration and by clients. Pure. */
import type { Config } from '../../core/config.ts'
import { contains, type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'

const MOST_VIPS = 8

export interface Vip {
  family: 4 | 6
  /** Canonical, without length. */
  address: string
  /** With the length that was given; a host address is its own: `192.0.2.10/32`. */
  cidr: string
}

/** Addresses that no host can have on an interface of its own; mapped ones stand for IPv4 ones (RFC 4291 section 2.5.5.2). */
const NOBODYS = ['0.0.0.0/8', '127.0.0.0/8', '224.0.0.0/3', '::/127', '::ffff:0:0/96', 'ff00::/8'].map(
  (text) => parsePrefix(text) as Prefix,
)

/** The canonical text of an address that a host can have; undefined for anything else. */
export function hostAddress(text: string): { family: 4 | 6; text: string } | undefined {
  const address = text.includes('/') ? undefined : parsePrefix(text)
  if (address === undefined || NOBODYS.some((prefix) => contains(prefix, address))) return undefined
  return { family: address.family, text: address.text }
}

/** Undefined for what is no address of a host, with or without a length. */
export function readVip(text: string): Vip | undefined {
  const [before = '', length] = text.split('/', 2)
  const address = hostAddress(before)
  const prefix = parsePrefix(text)
  if (address === undefined || prefix === undefined) return undefined
  const whole = address.family === 4 ? 32 : 128
  // A length is given for the route to the neighbours, which 0 would make a route to everybody.
  if (prefix.length === 0) return undefined
  return { family: address.family, address: address.text, cidr: `${address.text}/${length ?? whole}` }
}

/** What is wrong with a list for `gateway_vip`; undefined when nothing is. */
export function problemWithVips(items: readonly string[]): string | undefined {
  const vips = items.map(readVip)
  const bad = vips.indexOf(undefined)
  if (bad >= 0) return `not an address for a host, with or without a prefix length: ${items[bad]}`
  if (items.length > MOST_VIPS) return `must be at most ${MOST_VIPS} addresses`
  const twice = vips.find((vip, at) => vips.findIndex((other) => other?.address === vip?.address) !== at)
  return twice && `${twice.address} is named twice`
}

/** Those configured; the table of keys has seen that they can be read. */
export const configuredVips = (config: Config): Vip[] =>
  config.list('gateway_vip').flatMap((text) => readVip(text) ?? [])
