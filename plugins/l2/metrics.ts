/** What `GET /metrics` shows of bonds. */
import type { AreaMetric } from '../../core/area.ts'
import { membersNow } from './bond-news.ts'
import { bondCount } from './bonds.ts'

const STATES = ['active', 'standby', 'failed'] as const

export const metrics: readonly AreaMetric[] = [
  {
    name: 'bonds',
    help: 'Bonds that are stored.',
    type: 'gauge',
    read: ({ read }) => [{ value: bondCount(read) }],
  },
  {
    name: 'bonds_limit',
    help: 'Most bonds that can be stored (max_bonds).',
    type: 'gauge',
    read: ({ config }) => [{ value: config.int('max_bonds') }],
  },
  {
    name: 'bond_members',
    help: 'Members of bonds, by how they stand.',
    type: 'gauge',
    labels: ['state'],
    async read(context) {
      const now = await membersNow(context)
      return STATES.map((state) => ({
        value: now.filter((member) => member.state === state).length,
        labels: { state },
      }))
    },
  },
]
