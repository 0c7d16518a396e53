/** Values as clients write them → as they are stored. Throws a 400 that names the field. Pure. */
import { readAddress as readOne, whyUnfit } from '../../core/addresses.ts'
import { badRequest } from '../../core/errors.ts'
import { communityName, communityNumber, communitySet } from '../../dataplane/frr/communities.ts'
import { contains, type Prefix, parsePrefix, prefixOf } from '../../dataplane/nft/text.ts'

const prefix = (text: string): Prefix => {
  const parsed = parsePrefix(text)
  if (parsed === undefined) throw new TypeError(`not a prefix: ${text}`)
  return parsed
}

/** The address of one other machine, canonical. @throws ApiError 400 naming `field` */
export function readAddress(text: string, field: string): Prefix {
  if (text === '') throw badRequest(`${field} is required`)
  return readOne(text, field)
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
  const good = parsed?.family === 4 && whyUnfit(parsed) === undefined
  return text === '' || good ? undefined : 'must be an IPv4 address that a machine can have'
}
