/** Configuration keys of the core. Areas bring their own. */
import { isIP } from 'node:net'
import { parsePrefix } from '../dataplane/nft/text.ts'
import { EVENTS_PORT, GRPC_PORT, REST_PORT } from '../dataplane/numbers.ts'
import { type ConfigKey, type ConfigKeys, checks, splitList } from './config.ts'
import { certificateWhenSet, freePort, readableKeys } from './when-set.ts'

const address = (text: string) => (text === '' || isIP(text) !== 0 ? undefined : 'must be an IP address')
const device = (text: string) =>
  /^(?!\.{1,2}$)[A-Za-z0-9_.-]{0,15}$/.test(text) ? undefined : 'must be the name of a network device'
const prefixes = (text: string) => {
  const bad = splitList(text).find((part) => parsePrefix(part) === undefined)
  return bad === undefined ? undefined : `not an address or CIDR: ${bad}`
}
const names = (text: string) =>
  splitList(text).every((name) => /^[a-z][a-z0-9-]*$/.test(name)) ? undefined : 'must be a list of area names'

const port = (number: number, key: string, summary: string): ConfigKey => ({
  default: String(number),
  check: checks.int(0, 65535),
  whenSet: freePort(key),
  effective: 'restart',
  summary,
})

export const CORE_KEYS: ConfigKeys = {
  api_bind_address: {
    default: '',
    check: address,
    guards: true,
    effective: 'restart',
    summary: 'address that 7070, 7071 and 7072 listen on; empty: all addresses',
  },
  api_port: port(REST_PORT, 'api_port', 'REST port'),
  grpc_port: port(GRPC_PORT, 'grpc_port', 'health port'),
  events_port: port(EVENTS_PORT, 'events_port', 'event stream port'),
  api_allowed_ips: {
    default: '',
    check: prefixes,
    guards: true,
    effective: 'now',
    summary: 'addresses and CIDRs that may call the API; empty: every address',
  },
  api_rate_limit: {
    default: '1000',
    check: checks.int(1, 10_000_000),
    effective: 'now',
    summary: 'requests per minute and source address',
  },
  api_rate_burst: {
    default: '100',
    check: checks.int(1, 1_000_000),
    effective: 'now',
    summary: 'requests that may come at once from one source address',
  },
  api_auth_fail_limit: {
    default: '10',
    check: checks.int(1, 100_000),
    effective: 'now',
    summary: 'failed authentications within the window that block a source address',
  },
  api_auth_fail_window: {
    default: '300',
    check: checks.int(1, 86_400),
    effective: 'now',
    summary: 'window in seconds',
  },
  api_auth_block_seconds: {
    default: '900',
    check: checks.int(1, 604_800),
    effective: 'now',
    summary: 'how long a source address stays blocked',
  },
  max_connections: {
    default: '4096',
    check: checks.int(16, 1_000_000),
    effective: 'now',
    summary:
      'connections that may be open on each of 7070, 7071 and 7072; beyond, the oldest without a credential is reset',
  },
  max_connections_per_ip: {
    default: '256',
    check: checks.int(1, 1_000_000),
    effective: 'now',
    summary:
      'connections that may be open from one source address on each of the three ports; from an IPv6 /48, four times as many',
  },
  tls_cert: {
    default: '',
    check: checks.path,
    whenSet: (path, stored) => certificateWhenSet('tls_cert', path, stored('tls_key')),
    guards: true,
    effective: 'restart',
    summary: 'PEM certificate; empty: self-signed',
  },
  tls_key: {
    default: '',
    check: checks.path,
    whenSet: (path, stored) => certificateWhenSet('tls_key', path, stored('tls_cert')),
    guards: true,
    effective: 'restart',
    summary: 'PEM private key of tls_cert',
  },
  disabled_areas: { default: '', check: names, effective: 'restart', summary: 'areas that are off on this node' },
  license_trusted_keys: {
    default: '',
    check: checks.paths,
    whenSet: readableKeys,
    effective: 'now',
    summary: 'PEM public keys whose licences this node accepts',
  },
  uplink: {
    default: '',
    check: device,
    effective: 'now',
    summary: "the node's public interface; unset: the device of the default route",
  },
  drift_interval: {
    default: '60',
    check: checks.int(0, 86_400),
    effective: 'now',
    summary:
      'seconds after which the kernel is compared with the store even if nobody seems to have changed it; 0: never',
  },
  max_events: {
    default: '10000',
    check: checks.int(100, 1_000_000),
    effective: 'now',
    summary: 'events kept for readers of the stream that come back',
  },
  log_level: {
    default: 'info',
    check: (text) => (/^(debug|info|warn|error)$/.test(text) ? undefined : 'must be debug, info, warn or error'),
    effective: 'restart',
    summary: 'least severe level that is logged',
  },
}
