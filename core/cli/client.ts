/** HTTP to the agent over its control socket, one connection a call. */
import http, { type IncomingMessage } from 'node:http'

export type Call = <T>(method: string, path: string, body?: object) => Promise<T>

/** The agent answered that it will not. The message is its own. */
export class Refused extends Error {
  readonly status: number
  readonly body: unknown

  constructor(status: number, body: unknown) {
    super(problemOf(body) ?? `the agent answered ${status}`)
    this.status = status
    this.body = body
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
export function openClient(socketPath: string, patienceMs = PATIENCE_MS): Call {
  return async <T>(method: string, path: string, body?: object) => {
    const response = await send(socketPath, patienceMs, method, path, body)
    const { status, type, text } = await collect(response).catch((error: NodeJS.ErrnoException) => {
      throw new Unreachable(whyNot(socketPath, error), { cause: error })
    })
    const value = type.startsWith('application/json') ? parsed(socketPath, text) : text
    if (status >= 400) throw new Refused(status, value)
    // The shape is what the agent's route declares; CLI and agent come from one build.
    return value as T
  }
}

/** Resolves with the head of the answer. Rejects with `Unreachable`. */
export function send(
  socketPath: string,
  patienceMs: number,
  method: string,
  path: string,
  body?: object,
): Promise<IncomingMessage> {
  const payload = body === undefined ? undefined : JSON.stringify(body)
  const headers =
    payload === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(payload)) }
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(new Unreachable(whyNot(socketPath, error), { cause: error }))
    const request = http.request({ socketPath, method, path, headers, agent: false }, resolve)
    request.setTimeout(patienceMs, () => {
      request.destroy(Object.assign(new Error(`nothing came for ${patienceMs / 1000} s`), { code: 'ETIMEDOUT' }))
    })
    request.once('error', fail)
    request.end(payload)
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

function problemOf(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || !('error' in body)) return undefined
  return typeof body.error === 'string' ? body.error : undefined
}
