/**
 * IP address management: pools of addresses of both families, and which address of them is given to whom.
 * Owns no kernel object. An address is never given out twice, a gateway never; what is free is kept as intervals, so
 * the cost of an allocation does not depend on the size of the pool. Other areas keep pools here through offers.ts.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { events } from './events.ts'
import { holdings } from './holdings.ts'
import { replicates } from './replicate.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'ipam',
  summary: 'Address pools of IPv4 and IPv6, and who has which address of them.',
  prefixes: ['/ipam'],
  events,
  holdings,
  replicates,
  config: {
    max_ip_pools: {
      default: '4096',
      check: checks.int(1, 65_536),
      effective: 'now',
      summary: 'most IPAM pools on this node, those of networks not counted',
    },
  },
  routes,
})
