/** Record data between how the API shows it (D55) and the canonical form of the wire, as in `names.ts` a string of octets. */
import { addressBytes } from '../../dataplane/netlink/inet.ts'
import { nameOf } from './names.ts'

/** IANA DNS parameters: RR types. */
export const TYPE = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  MX: 15,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  OPT: 41,
  DS: 43,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  IXFR: 251,
  AXFR: 252,
  ANY: 255,
} as const

export type Stored = 'A' | 'AAAA' | 'PTR' | 'CNAME' | 'MX' | 'TXT' | 'NS' | 'SRV'

const MAX_TTL = 2 ** 31 - 1
const TXT_CHUNK = 255

/** Throws Error (RangeError for addresses and numbers) when `value` is no data of that type. */
export function rdataOf(type: Stored | 'SOA', value: string): string {
  switch (type) {
    case 'A':
      return address(value, 4)
    case 'AAAA':
      return address(value, 16)
    case 'PTR':
    case 'CNAME':
    case 'NS':
      return nameOf(value)
    case 'MX': {
      const [preference, host] = fields(value, 2)
      return u16(preference) + nameOf(host)
    }
    case 'SRV': {
      const [priority, weight, port, host] = fields(value, 4)
      return u16(priority) + u16(weight) + u16(port) + nameOf(host)
    }
    case 'TXT':
      return strings(value)
    case 'SOA': {
      const [server, mailbox, ...numbers] = fields(value, 7)
      return nameOf(server) + nameOf(mailbox) + numbers.map(u32).join('')
    }
  }
}

/** How far names that may be compressed (RFC 3597 §4) lie in the data, and how many follow each other. */
export function compressible(type: number): { from: number; names: number } | undefined {
  switch (type) {
    case TYPE.NS:
    case TYPE.CNAME:
    case TYPE.PTR:
      return { from: 0, names: 1 }
    case TYPE.MX:
      return { from: 2, names: 1 }
    case TYPE.SOA:
      return { from: 0, names: 2 }
    default:
      return undefined
  }
}

/** Seconds as RFC 2181 §8 bounds them. Throws RangeError. */
export function ttlOf(seconds: number): number {
  if (Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_TTL) return seconds
  throw new RangeError(`a TTL is a whole number of seconds from 0 to ${MAX_TTL}`)
}

function address(text: string, size: number): string {
  const bytes = addressBytes(text)
  if (bytes.length !== size) throw new RangeError(`${text} is not an IPv${size === 4 ? 4 : 6} address`)
  return bytes.toString('latin1')
}

/** Exactly so many, with one field for each name of the tuple. */
function fields<N extends 2 | 4 | 7>(value: string, count: N): Fields<N> {
  const all = value.trim().split(/\s+/)
  if (all.length !== count) throw new Error(`${JSON.stringify(value)} needs ${count} fields`)
  return all as Fields<N>
}
type Fields<N> = N extends 2
  ? [string, string]
  : N extends 4
    ? [string, string, string, string]
    : [string, string, string, string, string, string, string]

function number(text: string, limit: number): number {
  if (!/^\d{1,10}$/.test(text) || Number(text) > limit) throw new RangeError(`${text} is no number up to ${limit}`)
  return Number(text)
}

function u16(text: string): string {
  return octets(number(text, 0xffff), 2)
}

function u32(text: string): string {
  return octets(number(text, 0xffff_ffff), 4)
}

/** The number in so many octets, the highest first. */
export function octets(value: number, size: 1 | 2 | 4): string {
  let text = ''
  for (let n = size - 1; n >= 0; n--) text += String.fromCharCode(Math.floor(value / 256 ** n) & 0xff)
  return text
}

/** UTF-8, as character strings of 255 octets; an empty text is one empty string. */
function strings(text: string): string {
  const bytes = Buffer.from(text, 'utf8').toString('latin1')
  let data = ''
  for (let at = 0; at < bytes.length || at === 0; at += TXT_CHUNK) {
    const chunk = bytes.slice(at, at + TXT_CHUNK)
    data += String.fromCharCode(chunk.length) + chunk
  }
  return data
}
