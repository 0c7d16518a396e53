/** What `GET /metrics` shows of billing. */
import type { AreaMetric } from '../../core/area.ts'
import { queries } from './queries.ts'

const REASONS: ReadonlySet<string> = new Set(['tenant_blocked', 'tenant_limit'])

export const metrics: readonly AreaMetric[] = [
  {
    name: 'tenants',
    help: 'Tenants with a limit, and tenants whose traffic is blocked.',
    type: 'gauge',
    labels: ['state'],
    read({ read }) {
      const { limited = 0, blocked = 0 } = queries(read).counts.get() ?? {}
      return [
        { value: limited, labels: { state: 'limited' } },
        { value: blocked, labels: { state: 'blocked' } },
      ]
    },
  },
  {
    name: 'dropped_frames_total',
    help: 'Frames that workload ports dropped for the limit or the block of their tenant, since the node started.',
    type: 'counter',
    labels: ['reason'],
    read: ({ plane: { ports } }) =>
      ports
        .drops()
        .filter(({ reason }) => REASONS.has(reason))
        .map(({ reason, frames }) => ({ value: Number(frames), labels: { reason } })),
  },
]
