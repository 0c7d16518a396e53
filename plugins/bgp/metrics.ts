/** What `GET /metrics` shows of BGP. */
import type { AreaMetric, Sample } from '../../core/area.ts'
import { BGP_STATES } from '../../dataplane/frr/bgp.ts'
import { queries } from './queries.ts'

const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'neighbors',
    help: 'Neighbors by the state of their session (RFC 4271).',
    type: 'gauge',
    labels: ['state'],
    read({ read }) {
      const counts = new Map(
        queries(read)
          .sessionCounts.all()
          .map(({ state, many }) => [state, many]),
      )
      return BGP_STATES.map((state) => ({ value: counts.get(state) ?? 0, labels: { state } }))
    },
  },
  {
    name: 'neighbors_limit',
    help: 'Most neighbors that can be stored (max_bgp_neighbors).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_bgp_neighbors')),
  },
  {
    name: 'bfd_sessions_up',
    help: 'BFD sessions that are up.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).bfdUp.get()?.many),
  },
  {
    name: 'announcements',
    help: 'Prefixes that are announced.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).announcementCount.get()?.many),
  },
  {
    name: 'announcements_limit',
    help: 'Most prefixes that can be announced (max_bgp_announcements).',
    type: 'gauge',
    read: ({ config }) => one(config.int('max_bgp_announcements')),
  },
  {
    name: 'waiting',
    help: 'Settings that bgpd has refused and that are not in force.',
    type: 'gauge',
    read: ({ plane }) => one(plane.pending().filter(({ key }) => key.startsWith('bgp/')).length),
  },
]
