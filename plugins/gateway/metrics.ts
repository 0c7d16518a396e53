/** What `GET /metrics` shows of the gateway. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { bootId } from './boot.ts'
import { queries } from './queries.ts'
import { circumstances, holds } from './role.ts'

const one = (value: number): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'active',
    help: '1 while this node has the VIP.',
    type: 'gauge',
    read: ({ read, config }) => one(Number(holds(queries(read).role.get(), circumstances(config, bootId())))),
  },
  {
    name: 'waiting',
    help: 'Addresses of the VIP that this node has and that are not in force, because their device is away or they are taken.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('gateway/')).length),
  },
]
