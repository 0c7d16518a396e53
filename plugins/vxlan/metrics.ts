/** What `GET /metrics` shows of overlays. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'networks',
    help: 'VXLAN networks that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).networkCount.get()?.many),
  },
  {
    name: 'networks_limit',
    help: 'Most VXLAN networks that can be stored (max_vxlans).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_vxlans')),
  },
  {
    name: 'peers',
    help: 'Peers of all VXLAN networks together.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).peerCount.get()?.many),
  },
  {
    name: 'waiting',
    help: 'Devices and forwarding entries that are not in force, because the kernel refused them.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('vxlan/')).length),
  },
]
