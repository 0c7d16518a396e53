/**
 * Verbs for every call of REST, made from the OpenAPI document: its path without `/api/v1` and parameters are the words,
 * parameters the arguments, query and body the options. So what an area adds to its API is a command without another line.
 *
 *     GET    /networks                → networks list            GET /flows/stats → flows stats
 *     GET    /networks/{id}           → networks show ID         POST /networks/{id}/attach → networks attach ID
 *     POST   /networks                → networks add             PUT  /rules/default → rules default set
 *     PUT    /rules/{id}              → rules set ID
 *     DELETE /networks/{id}           → networks delete ID
 */
import { readFileSync } from 'node:fs'
import type { Operation, Schema } from './openapi.ts'
import { shown } from './shown.ts'
import { path, UsageError, type Verb, type VerbContext, type VerbOption } from './verb.ts'

const BASE = '/api/v1/'
/** What must not stand on a command line, where every user of the machine can read it: by --body only. */
const SECRET = /(^|_)(secret|password|passphrase|token|key|psk|code)$/
/** Options of stratumctl itself. */
const TAKEN: ReadonlySet<string> = new Set(['json', 'help', 'version', 'body'])

/** @param known words that verbs of areas begin with: `tenants` is theirs, so `/tenant` becomes that */
export function restVerbs(operations: readonly Operation[], known: ReadonlySet<string> = new Set()): Verb[] {
  const has = new Set(operations.map(({ method, path }) => `${method} ${path}`))
  const collections = new Set(operations.filter(({ path }) => path.endsWith('}')).map(({ path }) => parentOf(path)))

  /** The last word. One that the path has already said is left out. */
  function actionOf({ method, path, lists }: Operation): string {
    const collection = collections.has(path)
    switch (method) {
      case 'GET':
        if (lists || collection || has.has(`POST ${path}`)) return 'list'
        return path.endsWith('}') ? 'show' : ''
      case 'POST':
        return collection || has.has(`GET ${path}`) ? 'add' : ''
      case 'PUT':
        return 'set'
      case 'DELETE':
        return 'delete'
    }
  }

  const made = new Map<string, Verb>()
  for (const operation of operations) {
    const [first = '', ...rest] = operation.path
      .slice(BASE.length)
      .split('/')
      .filter((word) => !word.startsWith('{'))
    const noun = !known.has(first) && known.has(`${first}s`) ? `${first}s` : first
    const words = [noun, ...rest, actionOf(operation)].filter((word) => word !== '')
    const name = words.join(' ').replaceAll('_', '-')
    // Where two paths come to one name (a thing by its id, or by ?cidr=), the one that names it in its path is it.
    const before = made.get(name)
    if (before === undefined || parametersOf(operation.path).length > (before.arguments?.length ?? 0)) {
      made.set(name, verbOf(name, operation))
    }
  }
  return [...made.values()]
}

const parentOf = (url: string) => url.slice(0, url.lastIndexOf('/'))
const parametersOf = (url: string) => Array.from(url.matchAll(/\{([^}]+)\}/g), ([, name = '']) => name)

function verbOf(name: string, operation: Operation): Verb {
  const { method, path: url, summary, query, body } = operation
  const parameters = parametersOf(url)
  const fields = Object.entries(body ?? {}).filter(([field]) => !SECRET.test(field))
  const options: VerbOption[] = [
    ...query.map(({ name, summary, schema }) => optionOf(name, schema, summary, false)),
    ...fields.map(([field, schema]) =>
      optionOf(field, schema, schema.description ?? '', operation.required.has(field)),
    ),
    ...(body === undefined ? [] : [BODY]),
  ]
  return {
    path: name,
    summary: `${summary.charAt(0).toLowerCase()}${summary.slice(1)} (${method} ${url.slice(BASE.length - 1)})`,
    example: [name, ...parameters.map((it) => it.toUpperCase())].join(' '),
    arguments: parameters.map((parameter) => ({ name: parameter, summary: `{${parameter}} of the path` })),
    options,
    async run(context) {
      const target = url.replace(/\{([^}]+)\}/g, (_whole, it: string) => path`${context.argument(it)}`)
      const given = query.filter((it) => context.options[optionName(it.name)] !== undefined)
      const asked = given.map((it) => path`${it.name}=${String(context.options[optionName(it.name)])}`)
      const answer = await context.call(
        method,
        [target, ...(asked.length > 0 ? [asked.join('&')] : [])].join('?'),
        ...(body === undefined ? [] : [await bodyOf(context, fields)]),
      )
      context.print(answer, shown(answer))
    },
  }
}

const BODY: VerbOption = {
  flags: '--body <file>',
  summary: 'fields as JSON from a file, - for standard input; options win over it. Secrets go this way only',
}
const optionName = (field: string) => {
  const name = field.replaceAll('_', '-').toLowerCase()
  return TAKEN.has(name) ? `${name}-value` : name
}

function optionOf(field: string, schema: Schema, description: string, required: boolean): VerbOption {
  const choice = schema.enum?.filter((it) => it !== '').join('|')
  const placeholder = choice || (schema.type === 'boolean' ? 'true|false' : (schema.type ?? 'value'))
  const summary = [description || field.replaceAll('_', ' '), ...(required ? ['needed'] : [])].join('; ')
  return { flags: `--${optionName(field)} <${placeholder}>`, summary, integer: schema.type === 'integer' }
}

async function bodyOf(
  context: VerbContext,
  fields: readonly (readonly [string, Schema])[],
): Promise<Record<string, unknown>> {
  const file = context.options.body
  const read = file === undefined ? {} : objectIn(await textFrom(context, String(file)))
  const given = fields.flatMap(([field, schema]): [string, unknown][] => {
    const value = context.options[optionName(field)]
    return value === undefined ? [] : [[field, typed(optionName(field), schema, value)]]
  })
  return { ...read, ...Object.fromEntries(given) }
}

/** What `--body FILE` names. @throws UsageError */
export async function textFrom({ stdin }: Pick<VerbContext, 'stdin'>, file: string): Promise<string> {
  if (file === '-') return stdin('body')
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}

function objectIn(text: string): object {
  const value = jsonIn('--body', text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UsageError('--body: must be one JSON object')
  }
  return value
}

function jsonIn(where: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${where}: no JSON: ${(error as Error).message}`, { cause: error })
  }
}

/** A word of the command line as the type that the API asks for. What it does not fit the agent refuses. */
function typed(option: string, { type, items }: Schema, value: unknown): unknown {
  const text = String(value)
  if (type === 'integer') return value
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  if (type === 'number') return Number.isNaN(Number(text)) ? text : Number(text)
  if (type === 'object') return jsonIn(`--${option}`, text)
  if (type !== 'array') return text
  if (/^\s*\[/.test(text)) return jsonIn(`--${option}`, text)
  const words = text === '' ? [] : text.split(',')
  return words.map((word) => typed(option, items ?? {}, items?.type === 'integer' ? Number(word) : word))
}
