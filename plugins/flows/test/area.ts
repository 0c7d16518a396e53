/** Flows over a plane in memory, whose counters and flows the test sets, by a clock that it turns. */

import { system } from '../../../core/state/events.ts'
import type { Flow as Tracked } from '../../../dataplane/bpf/flow/read.ts'
import type { Traffic, Usage } from '../../../dataplane/bpf/flow/traffic.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { takeReading } from '../record.ts'

export const P = '/api/v1'
const AREAS = ['node', 'ipam', 'l2', 'networks', 'flows']
export const MONTH = Date.UTC(2030, 0, 1)
export const MINUTE = 60_000

export interface FlowsArea extends BuiltAgent {
  /** What the kernel has counted. */
  readonly usage: Map<string, Usage>
  readonly flows: Tracked[]
  readonly clock: { now: number }
  /** Counts more for a MAC. */
  count(mac: string, more: Partial<Pick<Usage, 'upBytes' | 'downBytes' | 'upPackets' | 'downPackets'>>): void
  /** Reads what was counted. */
  read(): Promise<void>
  get(path: string): Promise<Record<string, unknown>>
}

/** A GET does not read the counters of itself: a second must have passed by the clock. */
export async function flowsArea(t: Scope, options: BuildAgentOptions = {}): Promise<FlowsArea> {
  const clock = { now: MONTH }
  const usage = new Map<string, Usage>()
  const flows: Tracked[] = []
  const traffic: Traffic = {
    async *flows({ state } = {}) {
      for (let at = 0; at < flows.length; at += 2) {
        await new Promise(setImmediate)
        yield flows.slice(at, at + 2).filter((flow) => state === undefined || flow.state === state)
      }
    },
    flowsLimit: () => 1000,
    keepFlows: () => {},
    usage: async () => [...usage.values()].map((one) => ({ ...one })),
  }
  const plane = Object.assign(fakePlane(), { traffic })
  const built = await buildArea(t, 'flows', { only: AREAS, plane, now: () => new Date(clock.now), ...options })
  return {
    ...built,
    usage,
    flows,
    clock,
    count(mac, more) {
      const one = usage.get(mac) ?? {
        ...{ mac, bound: true, born: 1, address: '0.0.0.0' },
        ...{ upBytes: 0, downBytes: 0, upPackets: 0, downPackets: 0 },
      }
      for (const [name, value] of Object.entries(more)) one[name as 'upBytes'] += value
      usage.set(mac, one)
    },
    async read() {
      await built.agent.pipeline.mutate('flows', system('test'), (tx) =>
        takeReading(tx, plane, new Date(clock.now), built.agent.app.log),
      )
    },
    async get(path) {
      const { status, text, body } = await built.call('GET', `${P}${path}`)
      if (status !== 200) throw new Error(`${path}: ${status} ${text}`)
      return body
    },
  }
}
