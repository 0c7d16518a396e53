/** The area over a plane in memory. */
import { type BuildAgentOptions, type BuiltAgent, buildAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

export const FLOAT = '/api/v1/float'

export interface FloatArea extends BuiltAgent {
  /** Keys of what the plane holds, sorted. */
  held(): string[]
  /** Types of the events so far, without those of the node itself. */
  events(): string[]
  set(values: Record<string, string>): Promise<void>
}

/** By default an uplink is known. */
export async function floatArea(t: Scope, options: BuildAgentOptions = {}): Promise<FloatArea> {
  const config = { api_rate_limit: '10000000', api_rate_burst: '1000000', uplink: 'eth0', ...options.config }
  const built = await buildAgent(t, { only: ['node', 'gateway', 'float'], ...options, config })
  const { agent, plane } = built
  const { latest } = agent.outbox.bounds()
  return {
    ...built,
    held: () => [...plane.entries.keys()].sort(),
    events: () => agent.outbox.after(latest, 1000).map(({ type }) => type),
    async set(values) {
      agent.overrides.change((content) => void Object.assign(content.config, values))
      await agent.config.reload()
      await agent.pipeline.exclusively(async () => {})
    },
  }
}
