/**
 * What the agent tells about itself: the index of endpoints, the OpenAPI and the AsyncAPI document. All three are made
 * from what is registered and declared, so they cannot drift from it; each at its first request, and kept as text.
 */
import type { RouteOptions } from 'fastify'
import type { Agent } from '../../core/agent.ts'
import type { TypedApp } from '../../core/area.ts'
import { isMutation } from '../../core/gates/gate.ts'
import { planGate } from '../../core/licence/plan.ts'
import { asyncApi } from './asyncapi.ts'
import { type Operation, openApi } from './openapi.ts'
import { Documents, DocumentsQuery, type Index } from './schemas.ts'

const BASE = '/api/v1'

export function docsRoute(app: TypedApp): void {
  const { agent } = app
  const made = new Map<string, string>()
  const make = {
    json: () => index(agent.version, operations(agent)),
    openapi: () => openApi(agent.version, operations(agent), agent.states.summary),
    asyncapi: () => asyncApi(agent.version, agent.events),
  }
  app.get(
    '/docs',
    {
      config: { public: true },
      schema: {
        summary: 'Index of endpoints, OpenAPI or AsyncAPI document',
        querystring: DocumentsQuery,
        response: { 200: Documents },
      },
    },
    (request, reply) => {
      const { format = 'json' } = request.query
      // In lines: tools that find something in a document repeat the line.
      const text = made.get(format) ?? JSON.stringify(make[format](), undefined, format === 'json' ? 0 : 1)
      made.set(format, text)
      // Text is sent as it is, and a handler that returns the reply has answered; Fastify's types know neither.
      return reply.type('application/json; charset=utf-8').send(text as never) as never
    },
  )
}

function index(version: string, all: readonly Operation[]): Index {
  const endpoints = all.map(({ schema, strict, changes, tagged, personal, ...endpoint }) => endpoint)
  return { name: 'stratum-node', version, base: BASE, count: endpoints.length, endpoints }
}

/** Every endpoint below /api/v1, by path and method. To be asked once all are registered. */
export function operations(agent: Pick<Agent, 'routes' | 'states'>): Operation[] {
  const found = agent.routes
    .flatMap((route) => describe(agent.states, route))
    .sort((a, b) => a.path.localeCompare(b.path) || a.method.localeCompare(b.method))
  const tagged = new Set(found.filter((operation) => operation.tagged).map(({ path }) => path))
  const single = new Set(['GET', 'PUT', 'DELETE'])
  return found.map((operation) => ({
    ...operation,
    tagged: tagged.has(operation.path) && single.has(operation.method),
  }))
}

/** What is made is 201 where it can be; a route that can only refuse has nothing else to tell. */
function usual(method: string, declared: readonly number[]): number {
  if (method === 'POST' && declared.includes(201)) return 201
  return declared.find((code) => code >= 200 && code < 300) ?? declared[0] ?? 200
}

function describe(states: Agent['states'], route: RouteOptions): Operation[] {
  if (!route.url.startsWith(`${BASE}/`)) return []
  const path = route.url.slice(BASE.length)
  const { schema = {}, config = {} } = route
  const success = Object.keys((schema.response as object | undefined) ?? {}).map(Number)
  return [route.method]
    .flat()
    .filter((method) => method !== 'HEAD')
    .map((method) => ({
      method,
      path: `${BASE}${path.replace(/:([A-Za-z_]+)/g, '{$1}')}`,
      area: states.owner(path) ?? 'core',
      summary: schema.summary ?? '',
      auth: config.public ? 'none' : config.access === 'tenant' ? 'tenant' : 'token',
      feature: planGate(method, path)?.title ?? null,
      success: usual(method, success),
      schema,
      strict: config.strict === true,
      personal: config.personal === true,
      changes: isMutation(method),
      tagged:
        method === 'GET' && config.public !== true && config.volatile !== true && answersOneThing(schema.response),
    }))
}

/** Not a list: an object without an array of objects that is always there. */
function answersOneThing(response: unknown): boolean {
  const { 200: answer } = (response ?? {}) as Record<
    number,
    { type?: string; properties?: object; required?: string[] }
  >
  if (answer?.type !== 'object') return false
  const properties = (answer.properties ?? {}) as Record<string, { items?: { type?: string } }>
  return !(answer.required ?? []).some((key) => properties[key]?.items?.type === 'object')
}
