/** The index of endpoints, collected from the routes as they are registered, so it cannot drift from them. */
import type { FastifyInstance, RouteOptions } from 'fastify'
import type { TypedApp } from '../../core/area.ts'
import { planGate } from '../../core/licence/plan.ts'
import type { Endpoint } from './schemas.ts'

const BASE = '/api/v1'

/** A function that lists every endpoint below /api/v1, ordered by path and method. */
export function endpoints(app: TypedApp): () => Endpoint[] {
  let sorted: Endpoint[] | undefined
  return () => {
    sorted ??= (app as unknown as FastifyInstance).agent.routes
      .flatMap((route) => describe(app, route))
      .sort((a, b) => a.path.localeCompare(b.path) || a.method.localeCompare(b.method))
    return sorted
  }
}

function describe({ agent }: TypedApp, route: RouteOptions): Endpoint[] {
  if (!route.url.startsWith(`${BASE}/`)) return []
  const path = route.url.slice(BASE.length)
  const methods = [route.method].flat().filter((method) => method !== 'HEAD')
  const success = Object.keys((route.schema?.response as object | undefined) ?? {}).map(Number)
  return methods.map((method) => ({
    method,
    path: `${BASE}${path.replace(/:([A-Za-z_]+)/g, '{$1}')}`,
    area: agent.states.owner(path) ?? 'core',
    summary: route.schema?.summary ?? '',
    auth: route.config?.public ? 'none' : route.config?.access === 'tenant' ? 'tenant' : 'token',
    feature: planGate(method, path)?.title ?? null,
    success: success.find((code) => code >= 200 && code < 300) ?? 200,
  }))
}
