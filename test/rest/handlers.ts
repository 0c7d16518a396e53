/** Which handlers run: told by Fastify itself for every route, whoever registered it. */
import { tracingChannel } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import type { Agent } from '../../core/agent.ts'
import type { Scope } from '../netns.ts'

export interface Run {
  method: string
  /** The route that the router chose, `/api/v1/rules/:id`; undefined where it knew none. */
  route: string | undefined
  params: Record<string, string>
  caller: string | undefined
  /** As it came over the wire. */
  url: string
}

/** Every handler of `agent` that runs from now on until the test ends. */
export function watchHandlers(t: Scope, { app }: Agent): Run[] {
  const runs: Run[] = []
  const { start } = tracingChannel('fastify.request.handler')
  const note = (message: unknown) => {
    const { request, route } = message as { request: FastifyRequest; route: { url?: string } }
    if (request.server.agent.app !== app) return
    runs.push({
      method: request.method,
      route: route.url,
      params: request.params as Record<string, string>,
      caller: request.caller?.kind,
      url: request.raw.url ?? '',
    })
  }
  start.subscribe(note)
  t.teardown(() => void start.unsubscribe(note))
  return runs
}
