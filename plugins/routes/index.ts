/**
 * Static routes, and policy rules that say which packets look up which table.
 * Kernel objects: routes with protocol 201, policy rules with the same number as FRA_PROTOCOL. Either is in force when
 * its creation answers; what the kernel refuses is a 400 with its words, and never was.
 */
import { defineArea } from '../../core/area.ts'
import { checks } from '../../core/config.ts'
import { ROUTE_PROTOCOL } from '../../dataplane/numbers.ts'
import { desired } from './desired.ts'
import { events } from './events.ts'
import { metrics } from './metrics.ts'
import { routes } from './routes.ts'

export default defineArea(import.meta.url, {
  name: 'routes',
  summary: 'Static routes, and policy rules that say which packets look up which table.',
  prefixes: ['/routes'],
  requires: ['netlink'],
  netlink: { owner: ROUTE_PROTOCOL },
  events,
  config: {
    max_routes: {
      default: '32768',
      check: checks.int(1, 1_000_000),
      effective: 'now',
      summary: 'most static routes on this node',
    },
    max_policy_rules: {
      default: '1024',
      // The kernel walks them one by one for each packet that has no cached route.
      check: checks.int(1, 16_384),
      effective: 'now',
      summary: 'most policy rules on this node',
    },
  },
  desired,
  metrics,
  routes,
})
