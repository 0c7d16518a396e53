/**
 * The firewall: what may enter the node or be routed through it, judged before address translation.
 * Owns in table `inet stratum`: the base chain `firewall` (prerouting -150), the ordered list `firewall_rules`, the chains
 * `firewall_established` and `firewall_default`, the sets `firewall_ended4` and `6`. A rule is in force when its creation answers; established connections pass, except those that
 * a new drop forbids. Should the kernel refuse, the change is refused with it.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { desired, LIST } from './desired.ts'
import { events } from './events.ts'
import { startEviction } from './evict.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'
import { scheduleRoutes } from './schedule-routes.ts'
import { skeleton } from './skeleton.ts'

/** At this number a new connection that no rule decides costs about 0.3 ms (nft compares rule by rule). */
const MAX_RULES = '16384'

export default defineArea(import.meta.url, {
  name: 'firewall',
  prefixes: ['/rules'],
  requires: ['nft'],
  events,
  config: {
    firewall_failsafe: {
      default: 'on',
      check: checks.flag,
      effective: 'now',
      summary: 'default deny spares loopback, neighbour discovery, DHCP replies and the API',
    },
    max_rules: {
      default: MAX_RULES,
      check: checks.int(1, 131_072),
      effective: 'now',
      summary: 'most firewall rules on this node',
    },
  },
  rendersFrom: ['firewall_failsafe', 'api_allowed_ips'],
  nft: { skeleton, lists: [LIST], chains: ['firewall', 'firewall_output', 'firewall_default', 'firewall_established'] },
  desired,
  metrics,
  routes,
  control: scheduleRoutes,
  start: async (context) => startEviction(context),
})
