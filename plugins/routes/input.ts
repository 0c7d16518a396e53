/** What a client writes → what is stored. Throws a 400 that names the field. Pure. */
import { badRequest } from '../../core/errors.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'

/** linux/rtnetlink.h: RT_TABLE_MAIN, and the tables that the kernel fills itself. */
const MAIN = 254
const KERNELS_OWN = new Map([
  [253, 'default'],
  [255, 'local'],
])

export interface Block {
  family: 4 | 6
  /** Canonical, always with its length. */
  text: string
}

/** A CIDR; undefined for ''. Host bits are refused, not cleared: they are a slip more often than not (D19). */
export function readBlock(input: string, field: string): Block | undefined {
  if (input === '') return undefined
  const prefix = input.includes('/') ? parsePrefix(input) : undefined
  if (prefix === undefined) throw badRequest(`${field}: not a CIDR such as 10.0.0.0/24, 192.0.2.1/32 or fd00::/64`)
  const { family, length, bytes } = prefix
  const text = `${prefix.text.split('/', 1)[0]}/${length}`
  const address = parsePrefix(input.slice(0, input.indexOf('/')))
  if (bytes.some((byte, at) => byte !== address?.bytes[at])) {
    throw badRequest(`${field}: has host bits set: the block is ${text}`)
  }
  return { family, text }
}

/** An address that packets can be handed to; undefined for ''. */
export function readGateway(input: string): Block | undefined {
  if (input === '') return undefined
  const address = input.includes('/') ? undefined : parsePrefix(input)
  if (address === undefined) throw badRequest('gateway: not an IP address')
  // To the kernel this is no gateway at all.
  if (address.bytes.every((byte) => byte === 0)) throw badRequest(`gateway: ${address.text} is no router's address`)
  return { family: address.family, text: address.text }
}

/** The table of a route as it is stored: main is 0, by either of its numbers. */
export const stored = (table: number): number => (table === MAIN ? 0 : table)

/** Not 253 and 255, in which the kernel keeps what is its own. */
export function usable(table: number): number {
  const name = KERNELS_OWN.get(table)
  if (name !== undefined) throw badRequest(`table: ${table} is the kernel's own table "${name}"; use another number`)
  return table
}

/** The id in a path; text that is no id names nothing, like any other unknown one. */
export function readId(path: string): number {
  return /^[1-9][0-9]{0,14}$/.test(path) ? Number(path) : 0
}

/** What stands in a path, fit to be repeated in an error. */
export function shown(path: string): string {
  return path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64)
}
