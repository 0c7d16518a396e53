/**
 * Floating IPs: public addresses that are on one node and may be moved to another.
 * Kernel objects: the addresses that this node has, on its uplink, IFA_PROTO 206. An address is on the uplink when its
 * creation answers and has left it when its deletion does; the neighbours are told of it by the data plane.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { startRemembering } from './place.ts'
import { replicates } from './replicate.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'float',
  summary: 'Floating IPs: public addresses that are on one node and may be moved to another.',
  prefixes: ['/float'],
  // Whose address none may be.
  needs: ['gateway'],
  requires: ['netlink'],
  netlink: { owner: 206 },
  events,
  config: {
    max_floating_ips: {
      default: '1024',
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most floating IPs on this node',
    },
  },
  rendersFrom: ['uplink', 'gateway_vip'],
  desired,
  replicates,
  metrics,
  routes,
  start: startRemembering,
})
