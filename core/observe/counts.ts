/** What is counted at the gates, of events and on the way to the kernel. Label values come from the code alone. */
import { isFrame, type Passage } from '../../dataplane/entry.ts'
import type { Transport } from '../gates/lockout.ts'
import type { Maker } from './maker.ts'

const TRANSPORTS: readonly Transport[] = ['rest', 'grpc', 'events', 'cluster']

export interface GateCounts {
  refused(gate: string): void
  /** A credential was presented on that service and is wrong. */
  authenticationFailed(transport: Transport): void
}

/** `gates`: all that may refuse. */
export function gateCounts(make: Maker, gates: readonly string[]): GateCounts {
  const refusals = make.counter(
    'gate_refusals_total',
    'Calls that a gate refused, by gate, on all network services. bearer: no valid credential; rate, lockout: 429; scope, plan, freeze, allow_list: 403.',
    ['gate'],
    gates.map((gate) => ({ gate })),
  )
  const failures = make.counter(
    'authentication_failures_total',
    'Credentials that were presented and are wrong, by network service. Enough of them from one address block it.',
    ['transport'],
    TRANSPORTS.map((transport) => ({ transport })),
  )
  return {
    refused: (gate) => refusals.inc({ gate }),
    authenticationFailed: (transport) => failures.inc({ transport }),
  }
}

const ENDS = ['left', 'slow', 'dead', 'policy', 'stopping', 'error'] as const
export type StreamEnd = (typeof ENDS)[number]

export interface EventCounts {
  /** `area` has left so many in the outbox. */
  written(area: string, count: number): void
  /** A reader of the stream came. */
  opened(): void
  /** A frame was handed to the connection. */
  frame(): void
  ended(reason: StreamEnd): void
}

/** `areas`: who may emit events, the core among them. */
export function eventCounts(make: Maker, areas: readonly string[]): EventCounts {
  const written = make.counter(
    'events_written_total',
    'Events written to the outbox, by area.',
    ['area'],
    areas.map((area) => ({ area })),
  )
  const readers = make.gauge(
    'stream_readers',
    'Readers of the event stream that are connected now, over the network and the control socket.',
  )
  const ended = make.counter(
    'stream_readers_ended_total',
    'Readers that are gone, by reason: left by themselves, slow (they took too little), dead (no pong), policy (address no longer allowed), stopping (the agent), error (the store could not be read).',
    ['reason'],
    ENDS.map((reason) => ({ reason })),
  )
  const frames = make.counter('stream_frames_total', 'Frames handed to readers of the event stream.')
  return {
    written: (area, count) => written.inc({ area }, count),
    opened: () => readers.inc(),
    frame: () => frames.inc(),
    ended(reason) {
      readers.dec()
      ended.inc({ reason })
    },
  }
}

export interface PlaneCounts {
  applied(diff: readonly Passage[]): void
  refused(): void
  uncertain(): void
  connectionsEnded(count: number): void
}

export function planeCounts(make: Maker): PlaneCounts {
  const passages = make.counter(
    'plane_passages_total',
    'Kernel objects that were added, changed or removed, by kind; what takes a change back counts as well.',
    ['kind', 'change'],
  )
  const refusals = make.counter(
    'plane_refusals_total',
    'Times the kernel refused a change; nothing of it was in force.',
  )
  const uncertain = make.counter(
    'plane_uncertain_total',
    'Times it was not known whether the kernel took a change; the kernel was compared with the store then.',
  )
  const connections = make.counter(
    'plane_connections_ended_total',
    'Standing connections that conntrack was made to forget because a new rule forbids them.',
  )
  return {
    applied(diff) {
      for (const [key, count] of countBy(diff, labelsOf)) {
        const [kind = '', change = ''] = key.split(' ')
        passages.inc({ kind, change }, count)
      }
    },
    refused: () => refusals.inc(),
    uncertain: () => uncertain.inc(),
    connectionsEnded: (count) => connections.inc(count),
  }
}

function labelsOf({ before, after }: Passage): string {
  const change = before === undefined ? 'added' : after || isFrame(before) ? 'changed' : 'removed'
  return `${(after ?? before)?.kind} ${change}`
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const item of items) {
    const key = keyOf(item)
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}
