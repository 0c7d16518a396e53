/** What `GET /metrics` shows of routes and policy rules. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'routes',
    help: 'Routes that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).routeCount.get()?.count),
  },
  {
    name: 'routes_limit',
    help: 'Most routes that can be stored (max_routes).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_routes')),
  },
  {
    name: 'policy_rules',
    help: 'Policy rules that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).ruleCount.get()?.count),
  },
  {
    name: 'policy_rules_limit',
    help: 'Most policy rules that can be stored (max_policy_rules).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_policy_rules')),
  },
  {
    name: 'waiting',
    help: 'Routes and policy rules that are not in force, because a device or gateway is away or their place is taken.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('routes/')).length),
  },
]
