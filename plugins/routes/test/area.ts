/** The area over a plane in memory. */
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

export const ROUTES = '/api/v1/routes'
export const RULES = '/api/v1/routes/rules'

export interface RoutesArea extends BuiltAgent {
  routes(): Promise<unknown>
  rules(): Promise<unknown>
  /** Keys of what the plane holds, sorted. */
  held(): string[]
  /** Types of the events so far, without those of the node itself. */
  events(): string[]
}

export async function routesArea(t: Scope, options: BuildAgentOptions = {}): Promise<RoutesArea> {
  const config = { api_rate_limit: '10000000', api_rate_burst: '1000000', ...options.config }
  const built = await buildArea(t, 'routes', { ...options, config })
  const { agent, call, plane } = built
  const { latest } = agent.outbox.bounds()
  return {
    ...built,
    routes: async () => (await call('GET', ROUTES)).body.routes,
    rules: async () => (await call('GET', RULES)).body.rules,
    held: () => [...plane.entries.keys()].sort(),
    events: () => agent.outbox.after(latest, 1000).map(({ type }) => type),
  }
}
