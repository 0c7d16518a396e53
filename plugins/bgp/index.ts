/**
 * BGP with its neighbors, and BFD beside it.
 * Owns the daemons zebra, bfdd and bgpd of FRR (`dataplane/frr/`), their configuration, which follows from the store alone, and the
 * routes with protocol 186 that they put into the main table. What is created is in force when that answers; a session that
 * stands goes on without the agent, and a daemon that crashes is started anew and told everything again.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'
import { problemOfRouterId } from './values.ts'
import { watchSessions } from './watch.ts'

export default defineArea(import.meta.url, {
  name: 'bgp',
  summary: 'BGP sessions (RFC 4271), what is announced and accepted by them, and BFD (RFC 5880) beside them.',
  prefixes: ['/bgp'],
  // Under whose default deny neighbors come in.
  needs: ['firewall'],
  requires: ['bgp', 'nft'],
  events,
  config: {
    max_bgp_neighbors: {
      default: '256',
      check: checks.int(1, 1024),
      effective: 'now',
      summary: 'most BGP neighbors of this node',
    },
    max_bgp_announcements: {
      default: '10000',
      check: checks.int(1, 100_000),
      effective: 'now',
      summary: 'most prefixes that this node announces',
    },
    bgp_router_id: {
      default: '',
      check: problemOfRouterId,
      effective: 'now',
      summary: 'what the node is called in BGP, an IPv4 address; a change ends all sessions; default: made up once',
    },
  },
  rendersFrom: ['bgp_router_id'],
  desired,
  metrics,
  routes,
  start: async (context) => watchSessions(context),
})
