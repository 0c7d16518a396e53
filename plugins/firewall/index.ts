/**
 * The firewall: what may enter the node or be routed through it, judged before address translation: by the eBPF classifier
 * behind nft's base chain `firewall` (prerouting -150), or where the kernel has no place for it by nft, rule by rule.
 * Owns in table `inet stratum`: that chain, `firewall_output`, `firewall_established`, `firewall_spared` and
 * `firewall_default`, the ordered list `firewall_rules`, the sets `firewall_ended4` and `6`, `firewall_open4` and `6`.
 * A rule is in force when its creation answers; established connections pass, except those that a new drop forbids.
 * Should the kernel refuse, the change is refused with it.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { openings } from '../../dataplane/numbers.ts'
import { control } from './control.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { startEviction } from './evict.ts'
import { LIST } from './linear.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'
import { skeleton } from './skeleton.ts'

export default defineArea(import.meta.url, {
  name: 'firewall',
  summary: 'Rules for packets that enter the node or are routed through it.',
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
    firewall_rule_metrics: {
      default: '1000',
      check: checks.int(0, 10_000),
      effective: 'now',
      summary: 'GET /metrics shows the counters of the rules unless there are more rules than this',
    },
    max_rules: {
      default: '131072',
      check: checks.int(1, 131_072),
      effective: 'now',
      summary: 'most firewall rules on this node; without the eBPF classifier 16,384 at most',
    },
  },
  rendersFrom: ['firewall_failsafe', 'api_allowed_ips'],
  nft: {
    skeleton,
    lists: [LIST],
    chains: ['firewall', 'firewall_output', 'firewall_default', 'firewall_established', 'firewall_spared'],
    sets: [openings(4), openings(6)],
  },
  desired,
  metrics,
  routes,
  control,
  start: async (context) => startEviction(context),
})
