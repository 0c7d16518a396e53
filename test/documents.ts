/** The documents that an agent serves about itself, held against what it really answers and emits. */
import { Ajv, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Answer, BuiltAgent } from './build.ts'

interface Response {
  $ref?: string
  headers?: Record<string, object>
  content?: Record<string, { schema: object }>
}
export interface Operation {
  operationId: string
  tags: string[]
  summary: string
  security: object[]
  'x-auth': string
  'x-feature'?: string
  parameters?: { $ref?: string; name?: string; in?: string; schema?: object }[]
  requestBody?: { required: boolean; content: Record<string, { schema: object }> }
  responses: Record<string, Response>
}
export interface OpenApi {
  openapi: string
  tags: { name: string; description?: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: object; responses: Record<string, Response>; headers: Record<string, object> }
}
export interface AsyncApi {
  channels: Record<
    string,
    { address: string; messages: object; bindings: { ws: { query: { properties: Record<string, object> } } } }
  >
  components: { schemas: object; messages: Record<string, { payload: object }> }
}

export interface Documents {
  openapi: OpenApi
  asyncapi: AsyncApi
  /** Every operation, as `GET /api/v1/rules/{id}`. */
  operations: [string, Operation][]
  /** What in an answer is not as the document says. */
  answerProblems(method: string, url: string, answer: Answer): string[]
  /** What in a frame of the stream is not as the document says. */
  frameProblems(frame: object & { type: string }): string[]
}

export async function servedDocuments(call: BuiltAgent['call']): Promise<Documents> {
  const openapi = (await call('GET', '/api/v1/docs?format=openapi')).body as unknown as OpenApi
  const asyncapi = (await call('GET', '/api/v1/docs?format=asyncapi')).body as unknown as AsyncApi
  const [ofRest, ofStream] = [schemasOf(openapi, Ajv2020), schemasOf(asyncapi, Ajv)]

  return {
    openapi,
    asyncapi,
    operations: Object.entries(openapi.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, one]): [string, Operation] => [`${method.toUpperCase()} ${path}`, one]),
    ),
    answerProblems(method, url, answer) {
      const operation = operationOf(openapi, method, url)
      if (operation === undefined)
        return answer.body.error === 'no such path' ? [] : [`${method} ${url} is not documented`]
      const found = operation.responses[answer.status]
      if (found === undefined) return [`${answer.status} is not documented`]
      const name = found.$ref?.split('/').at(-1)
      const response = name === undefined ? found : (openapi.components.responses[name] ?? {})
      return [...headerProblems(openapi, response, answer), ...bodyProblems(ofRest, response, answer)]
    },
    frameProblems(frame) {
      const message = asyncapi.components.messages[frame.type]
      return message === undefined ? [`no message ${frame.type}`] : problems(ofStream(message.payload), frame)
    },
  }
}

/** Compiles a schema that stands somewhere in `document`. @throws Error when it is no valid JSON Schema */
export type Compiler = (schema: object) => ValidateFunction

/** In the dialect of `Dialect`, strictly. The named schemas of the document become one that the others refer to. */
export function schemasOf(
  document: { components: { schemas: object } },
  Dialect: typeof Ajv | typeof Ajv2020,
): Compiler {
  const ajv = new Dialect({ strict: true, strictTypes: false, validateFormats: false, allErrors: true })
  const moved = <T extends object>(part: T): T =>
    JSON.parse(JSON.stringify(part).replaceAll('"#/components/schemas/', '"doc:#/definitions/'))
  ajv.addSchema({ $id: 'doc:', definitions: moved(document.components.schemas) })
  const compiled = new Map<object, ValidateFunction>()
  return (schema) => {
    const validate = compiled.get(schema) ?? ajv.compile(moved(schema))
    compiled.set(schema, validate)
    return validate
  }
}

/** The operation that a call is; where two paths fit, the one with fewer parameters. */
function operationOf({ paths }: OpenApi, method: string, url: string): Operation | undefined {
  const path = url.split('?', 1)[0] ?? ''
  const [template = ''] = Object.keys(paths)
    .filter((one) => paths[one]?.[method.toLowerCase()] && pattern(one).test(path))
    .sort((a, b) => a.split('{').length - b.split('{').length)
  return paths[template]?.[method.toLowerCase()]
}

const pattern = (template: string) => new RegExp(`^${template.replace(/\{[^}]+\}/g, '[^/]+')}$`)

/** Sent whenever they are documented; the others where there is something to say. */
const ALWAYS: ReadonlySet<string> = new Set(['X-Request-Id', 'ETag', 'Retry-After'])

/** A refusal may come before or after what a header tells of, so those of refusals are only asked for. */
function headerProblems({ components }: OpenApi, response: Response, answer: Answer): string[] {
  const documented = new Set(Object.keys(response.headers ?? {}))
  return Object.keys(components.headers).flatMap((name) => {
    const sent = answer.headers[name.toLowerCase()] !== undefined
    if (sent && !documented.has(name) && answer.status < 300) return [`header ${name} is sent and not documented`]
    if (!sent && documented.has(name) && ALWAYS.has(name)) return [`header ${name} is documented and not sent`]
    return []
  })
}

function bodyProblems(compile: Compiler, { content = {} }: Response, answer: Answer): string[] {
  const type = String(answer.headers['content-type'] ?? '').split(';', 1)[0] ?? ''
  if (type === '') return answer.text === '' ? [] : ['a body without a type']
  const schema = content[type]?.schema
  if (schema === undefined) return [`${type} is not documented for ${answer.status}`]
  return type === 'application/json' ? problems(compile(schema), answer.body) : []
}

function problems(validate: ValidateFunction, value: unknown): string[] {
  validate(value)
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || 'body'}: ${message}`)
}
