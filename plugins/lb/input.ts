/** What a client writes → what is stored. Throws a 400 that names the field. Pure. */
import { badRequest } from '../../core/errors.ts'
import { contains, type Prefix, parsePrefix } from '../../dataplane/nft/text.ts'
import { hostAddress } from '../gateway/offers.ts'
import type { BackendInput, HealthCheckInput, VipInput } from './schemas.ts'
import type { BackendRow, VipRow } from './tables.ts'

const LINK_LOCAL = ['169.254.0.0/16', 'fe80::/10'].map((text) => parsePrefix(text) as Prefix)
/** D75. */
const [INTERVAL_SEC, TIMEOUT_SEC, THRESHOLD, HTTP_PATH] = [5, 2, 3, '/']

type Check = Pick<VipRow, 'checkType' | 'checkInterval' | 'checkTimeout' | 'checkThreshold' | 'checkPath'>

/** The canonical address of a host that others can reach. @throws ApiError 400 naming `field` */
export function readAddress(text: string, field: string): { family: 4 | 6; text: string } {
  const address = hostAddress(text)
  const parsed = address && parsePrefix(address.text)
  if (address === undefined || parsed === undefined || LINK_LOCAL.some((block) => contains(block, parsed))) {
    throw badRequest(
      `${field}: must be the address of a host that others can reach, IPv4 or IPv6, without a prefix length`,
    )
  }
  return address
}

/** Everything of a VIP that the client alone decides. @throws ApiError 400 */
export function readVip(input: VipInput): Omit<VipRow, 'number' | 'holder'> {
  const { id, frontend_port: port = 0, protocol = 'tcp', algorithm, dsr_enabled: dsr = false } = input
  const { text: address } = readAddress(input.frontend_ip, 'frontend_ip')
  return { id, address, port, protocol, algorithm, dsr, ...readCheck(input.health_check ?? {}, port) }
}

function readCheck(input: HealthCheckInput, port: number): Check {
  const check: Check = {
    checkType: input.type ?? '',
    checkInterval: input.interval_sec ?? INTERVAL_SEC,
    checkTimeout: input.timeout_sec ?? TIMEOUT_SEC,
    checkThreshold: input.threshold ?? THRESHOLD,
    checkPath: input.http_path || HTTP_PATH,
  }
  // As it stands in a request line (RFC 9112 §3.2.1).
  if (!/^\/[!-~]*$/.test(check.checkPath) || check.checkPath.includes('#')) {
    throw badRequest('health_check.http_path: must begin with / and have neither blanks nor #')
  }
  if (check.checkType === '') return check
  if (check.checkTimeout >= check.checkInterval) {
    const [timeout, interval] = [check.checkTimeout, check.checkInterval]
    throw badRequest(`health_check.timeout_sec: ${timeout} must be less than interval_sec, which is ${interval}`)
  }
  if (port === 0) {
    throw badRequest(
      'health_check.type: a VIP for every port has no port to check; give it a frontend_port or no check',
    )
  }
  return check
}

/** Everything of a backend of `vip` that the client alone decides. @throws ApiError 400 */
export function readBackend(
  vip: VipRow,
  input: BackendInput,
): Pick<BackendRow, 'vip' | 'id' | 'ip' | 'port' | 'weight'> {
  const { id, weight = 1 } = input
  const { text: ip } = readAddress(input.ip, 'ip')
  if (ip.includes(':') !== vip.address.includes(':')) {
    throw badRequest(`ip: must be of the same address family as the VIP, which has ${vip.address}`)
  }
  if (ip === vip.address) throw badRequest(`ip: ${ip} is the address of the VIP itself`)
  const port = input.port || vip.port
  if (vip.port === 0 && port !== 0) {
    throw badRequest(`port: must be 0, because VIP ${vip.id} takes every port and connections keep theirs`)
  }
  if (vip.dsr && port !== vip.port) {
    throw badRequest(`port: must be ${vip.port}, that of VIP ${vip.id}: with DSR nobody on the way can change it`)
  }
  return { vip: vip.id, id, ip, port, weight }
}

/** What stands in a path, fit to be repeated in an error. */
export const shown = (path: string): string => path.replace(/[^\x21-\x7e]/g, '?').slice(0, 64)
