/** Any call of the API, as it is. */
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { isJson, type Question, Refused, textOf } from '../client.ts'
import { textFrom } from '../rest.ts'
import { shown } from '../shown.ts'
import { UsageError, type Verb, type VerbContext } from '../verb.ts'

export const verbs: readonly Verb[] = [
  {
    path: 'api',
    summary: 'make any call of the API; a table for people, with --json the body as the agent sends it',
    example: 'api POST /rules --body - <<< \'{"action":"drop","source_ip":"198.51.100.0/24"}\'',
    arguments: [
      { name: 'method', summary: 'GET, POST, PUT or DELETE' },
      { name: 'path', summary: 'below /api/v1, such as /rules?chain=prerouting; /control/v1/… is known too' },
    ],
    options: [
      { flags: '--body <file>', summary: 'what to send, from a file, - for standard input' },
      { flags: '--header <header>', summary: 'such as \'If-Match: "5f…"\'; may be given several times', many: true },
      { flags: '--include', summary: 'status and headers of the answer before it' },
    ],
    run,
  },
]

async function run(context: VerbContext): Promise<void> {
  const { ask, argument, options, json, write } = context
  const method = argument('method').toUpperCase()
  if (!/^[A-Z]{1,16}$/.test(method)) throw new UsageError(`no method: ${argument('method')}`)
  const { status, headers, pieces } = await ask(method, target(argument('path')), await question(context))
  if (options.include === true) {
    const lines = Object.entries(headers).flatMap(([name, values]) => [values].flat().map((one) => `${name}: ${one}`))
    await write([`HTTP ${status}`, ...lines, '', ''].join('\n'))
  }
  if (status >= 400) {
    const text = await textOf(pieces)
    // The answer to a HEAD has the type of a body that it does not have.
    throw new Refused(status, isJson(headers) && text !== '' ? JSON.parse(text) : text, headers)
  }
  // A long list need not be held as a whole by whoever wants it as it is.
  if (json || !isJson(headers)) {
    let last = ''
    for await (const piece of pieces) {
      await write(piece)
      last = piece
    }
    if (last !== '' && !last.endsWith('\n')) await write('\n')
    return
  }
  const text = await textOf(pieces)
  if (text !== '') await write(`${shown(JSON.parse(text))}\n`)
}

function target(path: string): string {
  if (!/^\/[\x21-\x7e]*$/.test(path)) throw new UsageError('the path must begin with / and have no blanks: encode them')
  return /^\/(api|control)\//.test(path) ? path : `/api/v1${path}`
}

async function question(context: VerbContext): Promise<Question> {
  const { body, header = [] } = context.options
  const given = Object.fromEntries([header].flat().map((line) => headerOf(String(line))))
  if (body === undefined) return { headers: given }
  return { headers: { 'content-type': 'application/json', ...given }, body: await textFrom(context, String(body)) }
}

function headerOf(line: string): [string, string] {
  const at = line.indexOf(':')
  const [name, value] = [line.slice(0, Math.max(at, 0)).trim().toLowerCase(), line.slice(at + 1).trim()]
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  } catch (error) {
    throw new UsageError(`no header: ${line}: say 'Name: value'`, { cause: error })
  }
  return [name, value]
}
