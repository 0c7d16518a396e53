/** Values as clients write them → as they are stored. Throws a 400 that names the field. Pure. */
import { badRequest } from '../../core/errors.ts'
import { communityName, communityNumber, communitySet } from '../../dataplane/frr/communities.ts'
import { contains, type Prefix, parsePrefix, prefixOf } from '../../dataplane/nft/text.ts'

const prefix = (text: string): Prefix => {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError(`not a prefix: ${text}`)
  return parsed
}

/** What no other machine can be reached by: RFC 1122 §3.2.1.3, RFC 4291 §2.4 and §2.5. */
const UNFIT: readonly (readonly [Prefix, string])[] = [
  [prefix('0.0.0.0/8'), 'is in 0.0.0.0/8, which nobody has'],
  [prefix('127.0.0.0/8'), 'is a loopback address'],
  [prefix('224.0.0.0/3'), 'is a multicast or reserved address'],
  [prefix('::/96'), 'is unspecified, loopback or IPv4-compatible: nobody is reached by it'],
  [prefix('::ffff:0:0/96'), 'is IPv4-mapped: write the IPv4 address'],
  [prefix('fe80::/10'), 'is link-local and means nothing without a device'],
  [prefix('ff00::/8'), 'is a multicast address'],
]

/** The address of one other machine, canonical. */
export function readAddress(text: string, field: string): Prefix {
  if (text === '') throw badRequest(`${field} is required`)
  const parsed = text.includes('/') ? undefined : parsePrefix(text)
  if (parsed === undefined) throw badRequest(`${field}: not an IP address`)
  const unfit = UNFIT.find(([block]) => contains(block, parsed))
  if (unfit) throw badRequest(`${field}: ${unfit[1]}`)
  return parsed
}

/** A prefix with its length, canonical: `192.0.2.0/24`. Host bits are a mistake (D19). */
export function readPrefix(text: string, field: string): { text: string; family: 4 | 6; length: number } {
  if (text === '') throw badRequest(`${field} is required`)
  const parsed = text.includes('/') ? parsePrefix(text) : undefined
  if (parsed === undefined) throw badRequest(`${field}: not a CIDR such as 192.0.2.0/24`)
  const address = parsePrefix(text.slice(0, text.indexOf('/')))
  const kept = parsed.text.includes('/') ? parsed.text.slice(0, parsed.text.indexOf('/')) : parsed.text
  if (address?.text !== kept) throw badRequest(`${field}: has host bits; the network is ${cidr(parsed)}`)
  // Their text would be another to the speaker.
  const mapped = [prefix('::/96'), prefix('::ffff:0:0/96')].some((block) => contains(block, parsed))
  if (mapped && parsed.length > 0)
    throw badRequest(`${field}: is IPv4-mapped or IPv4-compatible: write the IPv4 prefix`)
  return { text: cidr(parsed), family: parsed.family, length: parsed.length }
}

const cidr = ({ bytes, length, family }: Prefix): string => {
  const { text } = prefixOf([...bytes], length)
  return length === (family === 4 ? 32 : 128) ? `${text}/${length}` : text
}

/** Each once, as the API shows them (D81). */
export function readCommunities(all: readonly string[], field: string): string[] {
  const numbers = all.map((text) => {
    const [, high, low] = /^(0|[1-9]\d{0,4}):(0|[1-9]\d{0,4})$/.exec(text) ?? []
    const known = /^no-(export|advertise|peer)$/.test(text)
    const good = known || (high !== undefined && Number(high) <= 65_535 && Number(low) <= 65_535)
    if (!good) throw badRequest(`${field}: must be a:b with 0 to 65535 each, no-export, no-advertise or no-peer`)
    return communityNumber(text)
  })
  return communitySet(numbers).map(communityName)
}

const PERMIT = ['', 'allow', 'permit']
const DENY = ['deny', 'block']

export function readAction(text: string, field: string): 'permit' | 'deny' {
  const word = text.toLowerCase()
  if (PERMIT.includes(word)) return 'permit'
  if (DENY.includes(word)) return 'deny'
  throw badRequest(`${field}: must be allow, permit, deny or block`)
}

/** TCP-MD5: 1 to 80 visible ASCII characters (D77). What was given is not repeated. */
export function readKey(text: string | undefined): string {
  if (text === undefined) return ''
  if (!/^[\x21-\x7e]{1,80}$/.test(text))
    throw badRequest('md5_key: must be 1 to 80 printable ASCII characters without blanks')
  return text
}

/** For the configuration: undefined when it can be a router id. */
export function problemOfRouterId(text: string): string | undefined {
  const parsed = text.includes('/') ? undefined : parsePrefix(text)
  const good = parsed?.family === 4 && !UNFIT.some(([block]) => contains(block, parsed))
  return text === '' || good ? undefined : 'must be an IPv4 address that a machine can have'
}
