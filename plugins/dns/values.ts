/** Values of records as clients write them → as they are stored (D55). Throws a 400 that says what is wrong. Pure. */
import { badRequest } from '../../core/errors.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { readHost } from './names.ts'
import type { RecordType } from './schemas.ts'

const MAX_TEXT = 4096

/** Canonical: addresses as RFC 5952 has them, names whole and in lower case, numbers without leading zeros. */
export function readValue(type: RecordType, text: string): string {
  if (text === '') throw badRequest('value is required')
  switch (type) {
    case 'A':
      return readAddress(text, 4)
    case 'AAAA':
      return readAddress(text, 6)
    case 'CNAME':
    case 'PTR':
      // Both may lead to names that are no hosts, such as a DKIM key's.
      return readHost(text, 'value', { service: true })
    case 'NS':
      return readHost(text, 'value')
    case 'MX': {
      const [preference, host] = fields(text, 2, '<preference> <host>')
      // "0 ." says that there is no mail (RFC 7505).
      return `${u16(preference, 'preference')} ${readHost(host, 'value', { root: true })}`
    }
    case 'SRV': {
      const [priority, weight, port, host] = fields(text, 4, '<priority> <weight> <port> <host>')
      const numbers = [u16(priority, 'priority'), u16(weight, 'weight'), u16(port, 'port')]
      return `${numbers.join(' ')} ${readHost(host, 'value', { root: true })}`
    }
    case 'TXT':
      if (Buffer.byteLength(text) > MAX_TEXT) throw badRequest(`value: longer than ${MAX_TEXT} bytes`)
      return text
    case 'SOA': {
      const { mname, rname, serial, times } = readSoa(text)
      return [mname, rname, serial, ...times].join(' ')
    }
  }
}

export interface Soa {
  mname: string
  rname: string
  serial: number
  /** Refresh, retry, expire, minimum; seconds. */
  times: number[]
}

/** RFC 1035 §3.3.13 */
export function readSoa(text: string): Soa {
  const form = '<primary> <mailbox> <serial> <refresh> <retry> <expire> <minimum>'
  const [mname, rname, serial, ...times] = fields(text, 7, form)
  return {
    mname: readHost(mname, 'value'),
    rname: readHost(rname, 'value', { service: true }),
    serial: number(serial, 'serial', 0xffffffff),
    times: times.map((time, at) => number(time, ['refresh', 'retry', 'expire', 'minimum'][at] ?? '', 0x7fffffff)),
  }
}

/** A CIDR, or one address, host bits cleared; '' for ''. */
export function readSubnet(text: string): string {
  if (text === '') return ''
  const prefix = parsePrefix(text)
  if (prefix === undefined) throw badRequest('source_subnet: not a CIDR such as 10.0.0.0/8 or fd00::/48')
  return `${prefix.text.split('/', 1)[0]}/${prefix.length}`
}

function readAddress(text: string, family: 4 | 6): string {
  const address = text.includes('/') ? undefined : parsePrefix(text)
  if (address?.family !== family) throw badRequest(`value: not an IPv${family} address`)
  return address.text
}

/** The fields between spaces, as many as the form has. */
function fields<const N extends 2 | 4 | 7>(text: string, count: N, form: string): Tuple<N> {
  const parts = text.trim().split(/ +/)
  if (parts.length !== count) throw badRequest(`value: must be "${form}"`)
  return parts as Tuple<N>
}
type Tuple<N extends number, R extends string[] = []> = R['length'] extends N ? R : Tuple<N, [...R, string]>

const u16 = (text: string, what: string): number => number(text, what, 0xffff)

function number(text: string, what: string, max: number): number {
  const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (!(value <= max)) throw badRequest(`value: ${what} must be a number from 0 to ${max}`)
  return value
}
