/** The OpenAPI document of this build as the CLI reads it. The build asks the agent for it (scripts/build.ts). */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Schema {
  $ref?: string
  type?: string
  enum?: readonly string[]
  description?: string
  items?: Schema
  anyOf?: readonly Schema[]
  properties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
}
interface Parameter {
  $ref?: string
  name?: string
  in?: string
  required?: boolean
  description?: string
  schema?: Schema
}
interface Described {
  summary: string
  tags?: readonly string[]
  'x-personal'?: boolean
  parameters?: readonly Parameter[]
  requestBody?: { content: Readonly<Record<string, { schema: Schema }>> }
  responses: Readonly<Record<string, { content?: Readonly<Record<string, { schema: Schema }>> }>>
}
export interface OpenApi {
  paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  components: { schemas: Readonly<Record<string, Schema>> }
}

/** One call of REST. */
export interface Operation {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** `/api/v1/networks/{id}` */
  path: string
  summary: string
  area: string
  query: readonly { name: string; summary: string; schema: Schema; required: boolean }[]
  /** Fields of the body; undefined where it takes none. */
  body?: Readonly<Record<string, Schema>>
  required: ReadonlySet<string>
  /** It tells who talks to whom. */
  personal: boolean
  /** The answer has a list of things. */
  lists: boolean
}

const DOCUMENT = join(import.meta.dirname, '../../openapi.json')

/** undefined where this tree was not built as a whole. */
export function readOpenApi(file = DOCUMENT): OpenApi | undefined {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
}

export function operationsOf(document: OpenApi): Operation[] {
  const whole = (schema: Schema = {}): Schema =>
    schema.$ref === undefined ? schema : (document.components.schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {})
  const listing = (schema: Schema | undefined): boolean => {
    const { anyOf = [], properties = {}, required = [] } = whole(schema)
    return anyOf.some(listing) || required.some((name) => whole(whole(properties[name]).items).properties !== undefined)
  }
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]): Operation => {
      const { summary, tags = [], parameters = [], requestBody, responses } = described
      const json = requestBody?.content['application/json']?.schema
      const body = json === undefined ? undefined : whole(json)
      const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]
      const fields = Object.entries(body?.properties ?? {}).map(([name, schema]) => [name, fieldOf(schema, whole)])
      return {
        method: method.toUpperCase() as Operation['method'],
        path,
        summary,
        area: tags[0] ?? '',
        personal: described['x-personal'] === true,
        query: parameters
          .filter((it) => it.in === 'query')
          .map(({ name = '', description = '', schema = {}, required = false }) => ({
            name,
            summary: description,
            schema: whole(schema),
            required,
          })),
        ...(body !== undefined && { body: Object.fromEntries(fields) }),
        required: new Set(body?.required ?? []),
        lists: listing(success?.content?.['application/json']?.schema),
      }
    }),
  )
}

/** Of several shapes the one that a word on a command line can be; what stands beside a reference stays. */
function fieldOf(schema: Schema, whole: (schema: Schema) => Schema): Schema {
  const { anyOf, description } = { ...whole(schema), ...schema }
  const one =
    anyOf === undefined ? whole(schema) : whole(anyOf.find((it) => whole(it).type === 'string') ?? anyOf[0] ?? {})
  return { ...one, ...(description !== undefined && { description }) }
}
