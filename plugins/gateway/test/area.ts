/** The area over a plane in memory. */
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

export const STATUS = '/api/v1/gateway/status'
export const FAILOVER = '/api/v1/gateway/failover'
export const FAILBACK = '/api/v1/gateway/failback'
export const VIP = '192.0.2.10'

export interface GatewayArea extends BuiltAgent {
  /** `local_state`. */
  state(): Promise<unknown>
  /** Sets configuration keys as the operator does, all at once. */
  set(values: Record<string, string>): Promise<void>
  /** Keys of what the plane holds, sorted. */
  held(): string[]
  /** `from>to` of the events of the gateway. */
  turns(): string[]
}

/** By default an uplink is known, and nothing else is configured. */
export async function gatewayArea(t: Scope, options: BuildAgentOptions = {}): Promise<GatewayArea> {
  const config = { api_rate_limit: '10000000', api_rate_burst: '1000000', uplink: 'eth0', ...options.config }
  const built = await buildArea(t, 'gateway', { ...options, config })
  const { agent, call, plane } = built
  return {
    ...built,
    state: async () => (await call('GET', STATUS)).body.local_state,
    async set(values) {
      agent.overrides.change((content) => void Object.assign(content.config, values))
      await agent.config.reload()
      // What follows by itself is behind this in the pipeline.
      await agent.pipeline.exclusively(async () => {})
    },
    held: () => [...plane.entries.keys()].sort(),
    turns: () =>
      agent.outbox
        .after(0, 1000)
        .filter(({ type }) => type === 'gateway.state_changed')
        .map(({ data }) => {
          const { from, to } = data as { from: string; to: string }
          return `${from}>${to}`
        }),
  }
}
