/** What `GET /metrics` shows of tenants. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'tenants',
    help: 'Tenants that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).tenantCount.get()?.count),
  },
  {
    name: 'tenants_limit',
    help: 'Most tenants that can be stored (max_tenants).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_tenants')),
  },
  {
    name: 'keys',
    help: 'Keys of all tenants, expired ones included.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).keyCount.get()?.count),
  },
]
