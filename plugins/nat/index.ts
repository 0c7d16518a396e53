/**
 * Port forwards and source NAT.
 * Owns in table `inet stratum`: the nat chains `nat_prerouting`, `nat_output`, `nat_postrouting`, the chains `nat_turn`,
 * `nat_turn_output` and `nat_between`, and maps and sets in which every rule is an element or two. A rule is in force when its creation
 * answers; when the deletion of a forward does, no new connection takes it, and those that did are ended a moment later.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { startEviction } from './evict.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'
import {
  BETWEEN,
  forwards,
  OUTPUT,
  POSTROUTING,
  PREROUTING,
  publics,
  skeleton,
  sources,
  TURN,
  TURN_OUTPUT,
} from './skeleton.ts'

export default defineArea(import.meta.url, {
  name: 'nat',
  summary: 'Port forwards and source NAT.',
  prefixes: ['/forward', '/gateway/snat'],
  // Whose networks are never translated towards.
  needs: ['networks'],
  requires: ['nft', 'netlink'],
  events,
  config: {
    max_nat_rules: {
      default: '8192',
      check: checks.int(1, 65_536),
      effective: 'now',
      summary: 'most port forwards and source NAT rules together on this node',
    },
  },
  nft: {
    skeleton,
    chains: [PREROUTING, OUTPUT, TURN, TURN_OUTPUT, BETWEEN, POSTROUTING],
    sets: [4, 6].flatMap((family) => [forwards(family), publics(family), sources(family)]),
  },
  rendersFrom: ['uplink'],
  desired,
  metrics,
  routes,
  start: async (context) => startEviction(context),
})
