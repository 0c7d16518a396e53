/** What `GET /metrics` shows of floating IPs. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'addresses',
    help: 'Floating IPs that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).count.get()?.count),
  },
  {
    name: 'addresses_limit',
    help: 'Most floating IPs that can be stored (max_floating_ips).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_floating_ips')),
  },
  {
    name: 'active',
    help: 'Floating IPs that this node has.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).ownCount.get()?.count),
  },
  {
    name: 'waiting',
    help: 'Floating IPs that this node has and that are not in force, because their device is away or they are taken.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('float/')).length),
  },
]
