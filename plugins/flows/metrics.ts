/** What `GET /metrics` shows of flows and accounting. */
import type { AreaMetric } from '../../core/area.ts'
import { queries } from './queries.ts'

export const metrics: readonly AreaMetric[] = [
  {
    name: 'limit',
    help: 'Most flows that the kernel remembers on this node; beyond, those that were silent longest are forgotten.',
    type: 'gauge',
    read: ({ plane: { traffic } }) => [{ value: traffic.flowsLimit() }],
  },
  {
    name: 'accounted_macs',
    help: 'MACs that have samples.',
    type: 'gauge',
    read: ({ read }) => [{ value: queries(read).macCount.get()?.many ?? 0 }],
  },
  {
    name: 'refused_macs',
    help: 'MACs that the last reading did not account, because too many were seen before them.',
    type: 'gauge',
    read: ({ read }) => [{ value: queries(read).reading.get()?.refused ?? 0 }],
  },
  {
    name: 'last_reading_timestamp_seconds',
    help: 'Until when traffic is accounted; more than two minutes ago means that it cannot be stored.',
    type: 'gauge',
    read: ({ read }) => [{ value: (queries(read).reading.get()?.at ?? 0) / 1000 }],
  },
]
