/** Addresses by which members reach each other. */
import { isIP } from 'node:net'
import { badRequest } from '../../core/errors.ts'
import { clientAt } from '../../core/gates/client.ts'

/** Canonical text (RFC 5952 for IPv6) of an address of one host. @throws ApiError 400 */
export function addressOf(text: string): string {
  const wrong = problemOfAddress(text)
  if (text === '' || wrong !== undefined) throw badRequest(`address: ${wrong ?? 'is required'}`)
  return clientAt(text).address
}

/** What is wrong with a `cluster_address`; '' is none. */
export function problemOfAddress(text: string): string | undefined {
  if (text === '') return undefined
  if (isIP(text) === 0 || text.includes('%')) return 'must be an IPv4 or IPv6 address'
  const { address } = clientAt(text)
  const first = address.includes(':')
    ? Number.parseInt(address.split(':')[0] || '0', 16)
    : Number(address.split('.')[0])
  const groups = address.includes(':') ? first >= 0xff00 : first >= 224
  if (groups || address === '::' || (first === 0 && !address.includes(':'))) return 'must be the address of one host'
  // Without the device, which others do not know, it leads nowhere.
  return address.includes(':') && first >= 0xfe80 && first <= 0xfebf ? 'must not be link-local' : undefined
}
