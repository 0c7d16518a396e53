/** HTTP to the agent over its control socket, one connection a call. */
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { REASON_FIELD } from '../errors.ts'
import { NO_PROGRESS, type Progress } from './progress.ts'

export type Call = <T>(method: string, path: string, body?: object) => Promise<T>

export interface Question {
  headers?: Readonly<Record<string, string>>
  body?: string
}
/** An answer as it comes, whatever its status. */
export interface Coming {
  status: number
  headers: IncomingHttpHeaders
  /** The body, piece by piece, read no faster than it is asked for. Throws `Unreachable` when it breaks off. */
  pieces: AsyncIterable<string>
}
export type Ask = (method: string, path: string, question?: Question) => Promise<Coming>

/** The agent answered that it will not. The message is its own. */
export class Refused extends Error {
  readonly status: number
  readonly body: unknown

  /** `headers`: of the answer; what they say of the reason is told behind the message and as `reason` of the body. */
  constructor(status: number, body: unknown, headers: IncomingHttpHeaders = {}) {
    const reason = headers[REASON_FIELD]
    const problem = problemOf(body) ?? `the agent answered ${status}`
    super(reason === undefined ? problem : `${problem}: ${reason}`)
    this.status = status
    this.body = reason === undefined || !isObject(body) ? body : { ...body, reason }
  }
}

/** No answer came. The message names the socket and what to look at. */
export class Unreachable extends Error {}

/** A change waits for those before it and for the kernel; longer than this nobody waits. */
export const PATIENCE_MS = 60_000

interface Answer {
  status: number
  type: string
  text: string
}

/** Calls over the socket at `socketPath`. Rejects with `Refused` on a status from 400 on, with `Unreachable` without an answer. */
export function openClient(socketPath: string, patienceMs = PATIENCE_MS, progress: Progress = NO_PROGRESS): Call {
  const ask = openAsk(socketPath, patienceMs, progress)
  return async <T>(method: string, path: string, body?: object) => {
    const { status, headers, pieces } = await ask(method, path, body === undefined ? {} : jsonQuestion(body))
    const text = await textOf(pieces)
    const value = isJson(headers) ? parsed(socketPath, text) : text
    if (status >= 400) throw new Refused(status, value, headers)
    // The shape is what the agent's route declares; CLI and agent come from one build.
    return value as T
  }
}

/** The same for whoever judges the answer himself. */
export function openAsk(socketPath: string, patienceMs = PATIENCE_MS, progress: Progress = NO_PROGRESS): Ask {
  return async (method, path, question) => {
    const step = progress.begin(`${method} ${path}`)
    let begun = false
    try {
      const response = await send(socketPath, patienceMs, method, path, question)
      begun = true
      return { status: response.statusCode ?? 0, headers: response.headers, pieces: pieces(response) }
    } finally {
      if (!begun) step.end()
    }

    async function* pieces(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
      try {
        for await (const piece of response.setEncoding('utf8')) {
          step.received(Buffer.byteLength(piece))
          yield piece
        }
      } catch (error) {
        throw new Unreachable(whyNot(socketPath, error as NodeJS.ErrnoException), { cause: error })
      } finally {
        step.end()
      }
    }
  }
}

export const jsonQuestion = (body: object): Question => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})
export const isJson = (headers: IncomingHttpHeaders): boolean =>
  headers['content-type']?.startsWith('application/json') === true

export async function textOf(pieces: AsyncIterable<string>): Promise<string> {
  let text = ''
  for await (const piece of pieces) text += piece
  return text
}

/** Resolves with the head of the answer. Rejects with `Unreachable`. */
export function send(
  socketPath: string,
  patienceMs: number,
  method: string,
  path: string,
  { headers = {}, body }: Question = {},
): Promise<IncomingMessage> {
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(new Unreachable(whyNot(socketPath, error), { cause: error }))
    const request = http.request(
      { socketPath, method, path, headers: { ...headers, ...length }, agent: false },
      resolve,
    )
    request.setTimeout(patienceMs, () => {
      request.destroy(Object.assign(new Error(`nothing came for ${patienceMs / 1000} s`), { code: 'ETIMEDOUT' }))
    })
    request.once('error', fail)
    request.end(body)
  })
}

export async function collect(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return {
    status: response.statusCode ?? 0,
    type: response.headers['content-type'] ?? '',
    text: Buffer.concat(chunks).toString('utf8'),
  }
}

export function parsed(socketPath: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Unreachable(`what answers at ${socketPath} does not speak JSON: is it stratumd?`, { cause: error })
  }
}

function whyNot(socketPath: string, { code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return `no access to ${socketPath} (${code}): run stratumctl as root`
    case 'ECONNRESET':
    case 'EPIPE':
    case 'ETIMEDOUT':
      return `the agent at ${socketPath} broke off (${message}): what was asked may have been done; is stratumd running?`
    default:
      return `no answer at ${socketPath} (${code ?? message}): is stratumd running?`
  }
}

const isObject = (body: unknown): body is object => typeof body === 'object' && body !== null

function problemOf(body: unknown): string | undefined {
  if (!isObject(body) || !('error' in body)) return undefined
  return typeof body.error === 'string' ? body.error : undefined
}
