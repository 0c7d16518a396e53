/** What `GET /metrics` shows of the load balancer. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]
const STATES = ['up', 'down', 'draining']

export const metrics: readonly AreaMetric[] = [
  {
    name: 'vips',
    help: 'VIPs that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).vipCount.get()?.many),
  },
  {
    name: 'vips_limit',
    help: 'Most VIPs that can be stored (max_vips).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_vips')),
  },
  {
    name: 'backends',
    help: 'Backends of all VIPs together: healthy (up), unhealthy (down), or removed and still serving what they had (draining).',
    type: 'gauge',
    labels: ['state'],
    read({ read }) {
      const counts = new Map<string, number>()
      for (const { state, many } of queries(read).counts.all()) counts.set(state, many)
      return STATES.map((state) => ({ value: counts.get(state) ?? 0, labels: { state } }))
    },
  },
  {
    name: 'accelerated',
    help: 'Whether the eBPF programs balance (1).',
    type: 'gauge',
    read: ({ plane }) => one(plane.balancer.accelerated ? 1 : 0),
  },
  {
    name: 'waiting',
    help: 'VIPs and their addresses that are not in force, because the kernel refused them.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('lb/')).length),
  },
]
