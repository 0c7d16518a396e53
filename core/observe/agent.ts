/** What the core tells of itself, read when somebody asks. Counted as it happens is the rest: counts.ts and its like. */
import type { Agent } from '../agent.ts'
import type { Reading, Sample } from '../area.ts'
import type { EventLoop } from './loop.ts'

export interface Watched {
  agent: Agent
  loop: EventLoop
}

const DAY_S = 86_400
const LICENCE_STATES = ['none', 'active', 'warning', 'grace', 'frozen']

const one = (value: number): Sample[] => [{ value }]
const flag = (on: boolean): number => (on ? 1 : 0)

export const agentReadings: readonly Reading<Watched>[] = [
  {
    name: 'build_info',
    help: 'Always 1; the labels tell which version of the agent runs, on which Node.js.',
    type: 'gauge',
    labels: ['version', 'node'],
    read: ({ agent: { version } }) => [{ value: 1, labels: { version, node: process.version } }],
  },
  {
    name: 'start_time_seconds',
    help: 'When the agent was started, Unix time.',
    type: 'gauge',
    read: ({ agent }) => one(agent.startedAt.getTime() / 1000),
  },
  {
    name: 'event_loop_delay_p99_seconds',
    help: 'How late the agent got round to its work, 99th percentile since the metrics were last read.',
    type: 'gauge',
    read: ({ loop }) => one(loop.delay()),
  },
  {
    name: 'process_cpu_seconds_total',
    help: 'CPU time of the agent without its helper processes.',
    type: 'counter',
    labels: ['mode'],
    read() {
      const { user, system } = process.cpuUsage()
      return Object.entries({ user, system }).map(([mode, micros]) => ({ value: micros / 1e6, labels: { mode } }))
    },
  },
  {
    name: 'process_resident_memory_bytes',
    help: 'Memory of the agent that is in RAM, without its helper processes.',
    type: 'gauge',
    read: () => one(process.memoryUsage.rss()),
  },
  {
    name: 'area_up',
    help: '1 if the area is on; 0 if it answers 503, as GET /control/v1/services explains.',
    type: 'gauge',
    labels: ['area'],
    read: ({ agent }) =>
      // Which of them the node can carry is known once the data plane is open.
      agent.stages.isMet('plane')
        ? agent.states.all().map(({ name, reason }) => ({ value: flag(reason === undefined), labels: { area: name } }))
        : [],
  },
  {
    name: 'plane_facility_up',
    help: '1 if this facility of the data plane works on this node, else 0; stratumctl status tells why not.',
    type: 'gauge',
    labels: ['facility'],
    read: ({ agent }) =>
      agent.plane.check().map(({ name, available }) => ({ value: flag(available), labels: { facility: name } })),
  },
  {
    name: 'plane_helper_restarts_total',
    help: 'Times the helper process of a facility had to be started anew because it had ended.',
    type: 'counter',
    labels: ['facility'],
    read: ({ agent }) =>
      agent.plane
        .check()
        .flatMap(({ name, restarts }) =>
          restarts === undefined ? [] : { value: restarts, labels: { facility: name } },
        ),
  },
  {
    name: 'pipeline_queue_depth',
    help: 'Changes and passes over the kernel that run or wait for their turn now.',
    type: 'gauge',
    read: ({ agent }) => one(agent.pipeline.depth()),
  },
  {
    name: 'events_oldest_id',
    help: 'Number of the oldest event that is kept; 0 when there is none.',
    type: 'gauge',
    read: ({ agent }) => one(agent.outbox.bounds().oldest),
  },
  {
    name: 'events_latest_id',
    help: 'Number of the latest event; 0 when there is none.',
    type: 'gauge',
    read: ({ agent }) => one(agent.outbox.bounds().latest),
  },
  {
    name: 'blocked_addresses',
    help: 'Source addresses that are blocked now after failed authentications.',
    type: 'gauge',
    read: ({ agent }) => one(agent.gates.lockout.blockCount()),
  },
  {
    name: 'licence_state',
    help: '1 for the state the licence is in: none (not installed), active, warning, grace or frozen; 0 for the others.',
    type: 'gauge',
    labels: ['state'],
    read({ agent }) {
      const view = agent.licence.view()
      const state = view.installed ? view.state : 'none'
      return LICENCE_STATES.map((one) => ({ value: flag(one === state), labels: { state: one } }))
    },
  },
  {
    name: 'licence_remaining_seconds',
    help: 'Time until the licence expires, in whole days of 86400 s rounded down; negative once it has. Absent without a licence.',
    type: 'gauge',
    read({ agent }) {
      const view = agent.licence.view()
      return view.installed ? one(view.days_remaining * DAY_S) : []
    },
  },
  {
    name: 'licence_mutations_allowed',
    help: '1 while the licence lets the configuration be changed, else 0. Traffic does not depend on it.',
    type: 'gauge',
    read({ agent }) {
      const view = agent.licence.view()
      return one(flag(view.installed && view.mutations_allowed))
    },
  },
]
