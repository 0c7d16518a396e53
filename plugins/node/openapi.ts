/**
 * The OpenAPI 3.1 document of the REST API. It is made from the routes as they are registered: their schemas are the
 * ones that requests are validated and answers serialised with, so it cannot say anything else than the agent does.
 */
import { STATUS_CODES } from 'node:http'
import type { FastifySchema } from 'fastify'
import { Problem } from '../../core/schemas.ts'
import { type Components, openComponents } from './components.ts'
import { HEADERS, type HeaderName, headersOf, REFUSALS } from './refusals.ts'
import type { Endpoint } from './schemas.ts'

/** An endpoint and how it is validated. */
export interface Operation extends Endpoint {
  schema: FastifySchema
  /** An unknown key in the body is refused. */
  strict: boolean
  /** It tells who talks to whom. */
  personal: boolean
  /** It is no read. */
  changes: boolean
  /** The thing that its path names has an ETag. */
  tagged: boolean
}

/**
 * @param operations those below /control left out
 * @param summaryOf what an area is for, which its tag says
 * @throws Error when two different schemas have one title
 */
export function openApi(
  version: string,
  operations: readonly Operation[],
  summaryOf: (area: string) => string | undefined,
): object {
  const components = openComponents()
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of operations) {
    const path = paths[operation.path] ?? {}
    paths[operation.path] = path
    path[operation.method.toLowerCase()] = describe(operation, components)
  }
  const problem = components.place({ ...Problem, title: 'Problem' })
  return {
    openapi: '3.1.0',
    info: {
      title: 'stratum-node',
      version,
      description: ABOUT,
    },
    servers: [{ url: '/', description: 'This node.' }],
    tags: [...new Set(operations.map(({ area }) => area))].map((name) => tagOf(name, summaryOf(name))),
    paths,
    components: {
      schemas: components.named,
      responses: Object.fromEntries(REFUSALS.map((refusal) => [refusal.name, refusalResponse(refusal, problem)])),
      headers: HEADERS,
      parameters: PARAMETERS,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: "The node token, an operator's key, or a tenant's key where an operation says so.",
        },
      },
    },
  }
}

const tagOf = (name: string, description: string | undefined): object => ({
  name,
  ...(description !== undefined && { description }),
})

const ABOUT = `REST API of a network node. Its event stream is described by \`?format=asyncapi\` of this path.

A field that a schema lists as required is in every answer; where it has no value it is empty: "", 0, false, [] or {}.
Any other field is left out where it has no value. No field is null, except \`feature\` in the index of this path.`

const PARAMETERS = {
  XNode: {
    name: 'X-Node',
    in: 'header',
    description: 'Another member of the cluster that is to answer; else the member called.',
    schema: { type: 'string' },
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'ETags, one of which the current state must have; else 412.',
    schema: { type: 'string' },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'ETags, none of which the current state must have; else 304 to a read.',
    schema: { type: 'string' },
  },
}

function describe(operation: Operation, components: Components): object {
  const { method, path, area, summary, auth, feature, schema } = operation
  const parameters = parametersOf(operation, components)
  return {
    operationId: operationId(method, path),
    tags: [area],
    summary,
    description: [ACCESS[auth], ...(feature === null ? [] : [`Needs ${feature} in the licence.`])].join(' '),
    'x-auth': auth,
    ...(feature !== null && { 'x-feature': feature }),
    ...(operation.personal && { 'x-personal': true }),
    security: auth === 'none' ? [] : [{ bearer: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(schema.body !== undefined && { requestBody: requestBody(schema.body, components) }),
    responses: responsesOf(operation, components),
  }
}

const ACCESS: Readonly<Record<Endpoint['auth'], string>> = {
  none: 'Needs no credential.',
  token: "For the operator: the node token or an operator's key.",
  tenant: 'For the operator, and for a tenant with its key in its own tenant.',
}

/** `GET /api/v1/rules/{id}` → `getRulesById`. Stays the same as long as method and path do. */
export function operationId(method: string, path: string): string {
  const words = path
    .replace(/^\/api\/v1\//, '')
    .replaceAll('{', 'by-')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
  return [method.toLowerCase(), ...words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)].join('')
}

interface ObjectSchema {
  properties?: Record<string, { description?: string }>
  required?: readonly string[]
}

function parametersOf({ path, schema, tagged, changes }: Operation, { place }: Components): object[] {
  // Fastify takes any value for a schema; what areas give is made by TypeBox.
  const params = schema.params as ObjectSchema | undefined
  const query = schema.querystring as ObjectSchema | undefined
  const inPath = Array.from(path.matchAll(/\{([^}]+)\}/g), ([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: place(params?.properties?.[name] ?? { type: 'string' }),
  }))
  const inQuery = Object.entries(query?.properties ?? {}).map(([name, value]) => ({
    name,
    in: 'query',
    ...(query?.required?.includes(name) && { required: true }),
    ...(value.description !== undefined && { description: value.description }),
    schema: place(value),
  }))
  const conditions = tagged ? ['IfMatch', ...(changes ? [] : ['IfNoneMatch'])] : []
  const headers = [...conditions, 'XNode'].map((name) => ({ $ref: `#/components/parameters/${name}` }))
  return [...inPath, ...inQuery, ...headers]
}

function requestBody(body: unknown, { place }: Components): object {
  const { required = [] } = body as ObjectSchema
  return { required: required.length > 0, content: { 'application/json': { schema: place(body) } } }
}

function responsesOf(operation: Operation, components: Components): object {
  const declared = Object.entries((operation.schema.response as Record<string, unknown> | undefined) ?? {})
  const answers = declared.length > 0 ? declared : [[String(operation.success), undefined] as const]
  const unchanged = operation.tagged && !operation.changes
  return {
    ...Object.fromEntries(
      REFUSALS.filter(({ when }) => when(operation)).map(({ status, name }) => [
        status,
        { $ref: `#/components/responses/${name}` },
      ]),
    ),
    ...(unchanged && { 304: { description: 'If-None-Match names the current state.', headers: refer(['ETag']) } }),
    ...Object.fromEntries(answers.map(([status, schema]) => answer(operation, status, schema, components))),
  }
}

function answer(operation: Operation, status: string, schema: unknown, components: Components): [string, object] {
  const { description = STATUS_CODES[status] ?? 'Answer', content } = (schema ?? {}) as {
    description?: string
    content?: Record<string, { schema: unknown }>
  }
  const types = content ?? (schema === undefined ? {} : { 'application/json': { schema } })
  const placed = Object.entries(types).map(([type, inner]) => [type, { schema: components.place(inner.schema) }])
  return [
    status.toUpperCase(),
    {
      description,
      headers: refer(headersOf(operation, status.startsWith('2'))),
      ...(placed.length > 0 && { content: Object.fromEntries(placed) }),
    },
  ]
}

function refusalResponse({ description, header }: (typeof REFUSALS)[number], problem: unknown): object {
  const names: HeaderName[] = ['X-Request-Id', ...(header === undefined ? [] : [header])]
  return { description, headers: refer(names), content: { 'application/json': { schema: problem } } }
}

const refer = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
