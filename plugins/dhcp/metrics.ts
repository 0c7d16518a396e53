/** What `GET /metrics` shows of leases and reservations. */
import type { AreaMetric } from '../../core/area.ts'
import { reservedCount } from '../networks/offers.ts'
import { queries } from './queries.ts'

const STATES = ['active', 'expired', 'revoked'] as const

export const metrics: readonly AreaMetric[] = [
  {
    name: 'leases',
    help: 'Leases that are stored, by state.',
    type: 'gauge',
    labels: ['state'],
    read: ({ read }) =>
      STATES.map((state) => ({ value: queries(read).count.get({ state })?.count ?? 0, labels: { state } })),
  },
  {
    name: 'reservations',
    help: 'Static reservations that are stored.',
    type: 'gauge',
    read: ({ read }) => [{ value: reservedCount(read) }],
  },
]
