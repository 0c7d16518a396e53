/** What a client writes → what is stored. Throws a 400 that names the field. Pure. */
import { badRequest } from '../../core/errors.ts'
import { type Prefix, parseMac, parsePrefix } from '../../dataplane/nft/text.ts'

const NO_MAC = '00:00:00:00:00:00'

/** A CIDR, canonical; '' for ''. Host bits are refused, not cleared (D19). */
export function readSubnet(input: string): string {
  if (input === '') return ''
  const prefix = input.includes('/') ? parsePrefix(input) : undefined
  if (prefix === undefined) throw badRequest('subnet: not a CIDR such as 10.0.0.0/24 or fd00::/64')
  const text = `${prefix.text.split('/', 1)[0]}/${prefix.length}`
  const address = parsePrefix(input.slice(0, input.indexOf('/')))
  if (prefix.bytes.some((byte, at) => byte !== address?.bytes[at])) {
    throw badRequest(`subnet: has host bits set: the block is ${text}`)
  }
  return text
}

/** The address of a machine. */
export function readVtep(input: string): Prefix {
  const address = input.includes('/') ? undefined : parsePrefix(input)
  if (address === undefined) throw badRequest('vtep_ip: not an IP address')
  if (isNoHost(address)) throw badRequest(`vtep_ip: ${address.text} is no address of a machine`)
  return address
}

/** Unspecified, loopback, multicast, broadcast, an IPv4 address in another guise, and link-local, which says nothing without a device. */
function isNoHost({ family, bytes }: Prefix): boolean {
  const [first = 0, second = 0] = bytes
  if (family === 4) return first === 0 || first === 127 || first >= 224
  return (
    first === 0xff || (first === 0xfe && (second & 0xc0) === 0x80) || bytes.slice(0, 10).every((byte) => byte === 0)
  )
}

/** A MAC of a NIC, canonical; '' for ''. */
export function readMac(input: string): string {
  if (input === '') return ''
  const mac = parseMac(input)
  if (mac === undefined) throw badRequest('mac: not a MAC address')
  // The group bit of IEEE 802 is the lowest of the first octet.
  if ((Number.parseInt(mac.slice(0, 2), 16) & 1) === 1) throw badRequest(`mac: ${mac} is a multicast address`)
  if (mac === NO_MAC) throw badRequest(`mac: ${mac} is no address of a NIC`)
  return mac
}

/** The VNI in a path; text that is none names nothing, like any other unknown one. */
export const readVni = (path: string): number => (/^[1-9][0-9]{0,7}$/.test(path) ? Number(path) : 0)

/** What stands in a path, fit to be repeated in an error. */
export const shown = (path: string): string => path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64)

/** The check of vxlan_local_ip. */
export function problemOfLocal(text: string): string | undefined {
  if (text === '') return undefined
  const address = text.includes('/') ? undefined : parsePrefix(text)
  return address && !isNoHost(address) ? undefined : 'must be an address of this node'
}
