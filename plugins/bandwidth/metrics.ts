/** What `GET /metrics` shows of bandwidth. */
import type { AreaMetric } from '../../core/area.ts'
import { queries } from './queries.ts'

const REASONS: ReadonlySet<string> = new Set(['ceiling', 'quota'])

export const metrics: readonly AreaMetric[] = [
  {
    name: 'limits',
    help: 'Limits that are stored.',
    type: 'gauge',
    read: ({ read }) => [{ value: queries(read).limitCount.get()?.many ?? 0 }],
  },
  {
    name: 'pools',
    help: 'Pools that are stored.',
    type: 'gauge',
    read: ({ read }) => [{ value: queries(read).poolCount.get()?.many ?? 0 }],
  },
  {
    name: 'quotas',
    help: 'Quotas by the status that was last told.',
    type: 'gauge',
    labels: ['status'],
    read({ read }) {
      const counts = new Map(
        queries(read)
          .quotaCounts.all()
          .map(({ status, many }) => [status, many]),
      )
      return (['ok', 'warning', 'exceeded'] as const).map((status) => ({
        value: counts.get(status) ?? 0,
        labels: { status },
      }))
    },
  },
  {
    name: 'dropped_frames_total',
    help: 'Frames that workload ports dropped for a quota that is used up or for the ceiling of the licence, since the node started.',
    type: 'counter',
    labels: ['reason'],
    read: ({ plane: { ports } }) =>
      ports
        .drops()
        .filter(({ reason }) => REASONS.has(reason))
        .map(({ reason, frames }) => ({ value: Number(frames), labels: { reason } })),
  },
]
