/**
 * DHCP for private networks: each bound endpoint gets its address, and nobody else any. The responder process answers,
 * also while no agent runs; here stands what it shall know, what became of leases, and reservations.
 * Kernel objects: none of its own; entries of the responder. A binding is served when its attach answers, and its MAC is
 * refused when its detach does.
 */
import { defineArea } from '../../core/area.ts'
import { checks, splitList } from '../../core/config.ts'
import { addressNumber } from './address.ts'
import { desired, follows, GATEWAY } from './desired.ts'
import { events } from './events.ts'
import { keepLeases } from './keeper.ts'
import { metrics } from './metrics.ts'
import { control, routes } from './routes.ts'

/** More are not told of: an option has room for 63. */
const MOST_SERVERS = 8
const DOMAIN =
  /^(?=.{0,253}$)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*)?$/

export default defineArea(import.meta.url, {
  name: 'dhcp',
  summary: 'DHCP (RFC 2131) for private networks: reservations and leases.',
  prefixes: ['/dhcp'],
  needs: ['networks'],
  requires: ['responder', 'port'],
  port: ['former'],
  events,
  config: {
    dhcp_lease_seconds: {
      default: '3600',
      // A week is how long leases that ended are remembered, and so is what was refused to them.
      check: checks.int(60, 604_800),
      effective: 'now',
      summary: 'how long a lease lasts unless it is renewed',
    },
    dhcp_dns: {
      default: '',
      check(text) {
        const servers = splitList(text)
        if (servers.length > MOST_SERVERS) return `must be at most ${MOST_SERVERS} servers`
        const good = servers.every((server) => server === GATEWAY || addressNumber(server) !== undefined)
        return good ? undefined : 'must be a list of IPv4 addresses, or gateway for that of the network'
      },
      effective: 'now',
      summary: 'name servers that clients are told of; gateway stands for that of their network',
    },
    dhcp_domain: {
      default: '',
      check: (text) => (DOMAIN.test(text) ? undefined : 'must be a domain name'),
      effective: 'now',
      summary: 'domain that clients are told of',
    },
    dhcp_mtu: {
      default: '0',
      check: (text) => (text === '0' ? undefined : checks.int(576, 65_535)(text)),
      effective: 'now',
      summary: 'MTU that clients are told of, 0 for none',
    },
  },
  rendersFrom: ['dhcp_lease_seconds', 'dhcp_dns', 'dhcp_domain', 'dhcp_mtu'],
  desired,
  follows,
  metrics,
  routes,
  control,
  start: async (context) => keepLeases(context),
})
