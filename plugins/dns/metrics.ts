/** What `GET /metrics` shows of zones and records. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'zones',
    help: 'Zones that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).zoneCount.get()?.count),
  },
  {
    name: 'zones_limit',
    help: 'Most zones that can be stored (max_zones).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_zones')),
  },
  {
    name: 'signed_zones',
    help: 'Zones that are signed.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).keyCount.get()?.count),
  },
  {
    name: 'records',
    help: 'Records that are stored.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).recordCount.get()?.count),
  },
  {
    name: 'records_limit',
    help: 'Most records that can be stored (max_records).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_records')),
  },
  {
    name: 'waiting',
    help: 'Addresses that are not listened on, because another server has them.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('dns/')).length),
  },
]
