/** What `GET /metrics` shows of the cluster. Outside of one a node is its only member. */
import type { AreaMetric } from '../../core/area.ts'
import { clusterOf, peersOf, roleOf } from './cluster.ts'

export const metrics: readonly AreaMetric[] = [
  {
    name: 'members',
    help: 'Members of the cluster, this node included, by whether they are online as this node sees them.',
    type: 'gauge',
    labels: ['status'],
    read({ config }) {
      const others = peersOf(clusterOf(config).engine)
      const online = others.filter(({ status }) => status === 'online').length
      return [
        { value: online + 1, labels: { status: 'online' } },
        { value: others.length - online, labels: { status: 'offline' } },
      ]
    },
  },
  {
    name: 'is_leader',
    help: 'Whether this node leads the cluster (1) or follows (0).',
    type: 'gauge',
    read: ({ config }) => [{ value: roleOf(clusterOf(config).engine).is_leader ? 1 : 0 }],
  },
  {
    name: 'has_majority',
    help: 'Whether what the members share can be changed by way of this node (1) or it is cut off from a majority (0).',
    type: 'gauge',
    read: ({ config }) => [{ value: clusterOf(config).engine.standing()?.writable === false ? 0 : 1 }],
  },
  {
    name: 'passed_calls_total',
    help: 'Calls that this node has passed on to another member, by whether that one answered.',
    type: 'counter',
    labels: ['result'],
    read: ({ config }) =>
      Object.entries(clusterOf(config).passed).map(([result, value]) => ({ value, labels: { result } })),
  },
]
