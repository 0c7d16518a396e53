/** What `GET /metrics` shows of NAT. */
import type { AreaMetric } from '../../core/area.ts'
import { FORWARD, queries, SNAT } from './queries.ts'

export const metrics: readonly AreaMetric[] = [
  {
    name: 'rules',
    help: 'Port forwards and source NAT rules that are stored, by type.',
    type: 'gauge',
    labels: ['type'],
    read({ read }) {
      const counts = new Map(
        queries(read)
          .counts.all()
          .map(({ type, many }) => [type, many]),
      )
      return [FORWARD, SNAT].map((type) => ({ value: counts.get(type) ?? 0, labels: { type } }))
    },
  },
  {
    name: 'rules_limit',
    help: 'Most rules of both types together (max_nat_rules).',
    type: 'gauge',
    read: ({ config }) => [{ value: config.int('max_nat_rules') }],
  },
  {
    name: 'pending_evictions',
    help: 'Changed port forwards whose outdated connections are not ended yet; the changes themselves are in force.',
    type: 'gauge',
    read: ({ read }) => [{ value: queries(read).pendingCount.get()?.many ?? 0 }],
  },
]
