/** An agent over a plane in memory, for tests of drift detection on a clock that the test moves. */
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Call, overSocket } from '../../../test/agent.ts'
import { type BuildAgentOptions, type BuiltAgent, buildAgent, scratch } from '../../../test/build.ts'
import { listenControl } from '../../transport/listener.ts'

export const RULE = { action: 'accept', source_ip: '192.0.2.0/24' }
/** The first rule in the kernel. */
export const KEY = 'firewall/1'

export interface Bench extends BuiltAgent {
  time: { ms: number }
  /** One beat, `seconds` after the last one. */
  beat(seconds?: number): Promise<void>
  /** Somebody deletes these. */
  meddle(...keys: string[]): void
  /** Data of the events of drift so far. */
  drifts(): unknown[]
  status(): Promise<unknown>
  /** Calls over the control socket. */
  control: Call
}

export async function bench(t: Test, options: BuildAgentOptions = {}): Promise<Bench> {
  const time = { ms: 1_000_000 }
  const built = await buildAgent(t, { only: ['node', 'firewall'], clock: () => time.ms, ...options })
  const { agent, plane, call } = built
  const socket = join(scratch(t), 'control.sock')
  const listener = await listenControl(agent.app.routing.bind(agent.app), socket)
  t.teardown(() => listener.close(0))
  return {
    ...built,
    time,
    async beat(seconds = 1) {
      time.ms += seconds * 1000
      await agent.drift.beat()
      // The event is stored by the pipeline, in its turn.
      await agent.pipeline.exclusively(async () => {})
    },
    meddle(...keys) {
      for (const key of keys) if (!plane.entries.delete(key)) throw new Error(`no entry ${key}`)
      plane.meddled = true
    },
    drifts: () =>
      agent.outbox
        .after(0, 1000)
        .filter(({ type }) => type === 'agent.drift')
        .map(({ data }) => data),
    status: async () => (await call('GET', '/api/v1/status')).body.status,
    control: overSocket(socket),
  }
}
