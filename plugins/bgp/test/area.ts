/** The area over a plane in memory. */
import { type BuildAgentOptions, type BuiltAgent, buildAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

export const BGP = '/api/v1/bgp'

export interface BgpArea extends BuiltAgent {
  /** Throws unless it succeeds; the body of the answer. */
  sure(method: string, path: string, body?: object): Promise<Record<string, unknown>>
  /** Keys of what bgpd shall hold, sorted. */
  held(): string[]
  /** Types of the area's events so far. */
  events(): string[]
}

export async function bgpArea(t: Scope, options: BuildAgentOptions = {}): Promise<BgpArea> {
  const config = { api_rate_limit: '10000000', api_rate_burst: '1000000', ...options.config }
  const built = await buildAgent(t, { only: ['node', 'firewall', 'bgp'], ...options, config })
  const { agent, call, plane } = built
  const { latest } = agent.outbox.bounds()
  return {
    ...built,
    async sure(method, path, body) {
      const answer = await call(method, `${BGP}${path}`, body)
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
      return answer.body
    },
    held: () => [...plane.entries.keys()].filter((key) => key.startsWith('bgp/')).sort(),
    events: () => agent.outbox.after(latest, 1000).map(({ type }) => type),
  }
}
