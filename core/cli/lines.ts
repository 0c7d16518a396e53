/** An answer of the agent that goes on, line by line, over the control socket. */
import type { IncomingMessage } from 'node:http'
import { collect, PATIENCE_MS, parsed, Refused, send, Unreachable } from './client.ts'

export type Lines = (path: string) => AsyncGenerator<string, void, undefined>

/**
 * Reads no faster than its lines are asked for; empty ones, the agent's heartbeats, are left out. Ends when the agent
 * ends the answer or `interrupted` is aborted. Throws `Refused` on a status from 400 on, `Unreachable` when the agent is
 * gone or sends nothing for `patienceMs`.
 */
export function openLines(socketPath: string, interrupted: () => AbortSignal, patienceMs = PATIENCE_MS): Lines {
  return async function* lines(path) {
    const signal = interrupted()
    if (signal.aborted) return
    const response = await send(socketPath, patienceMs, 'GET', path)
    // From here on the clock is that of `chunks`.
    response.setTimeout(0)
    const stop = () => response.destroy()
    signal.addEventListener('abort', stop)
    try {
      if (signal.aborted) return
      if ((response.statusCode ?? 0) >= 400) {
        const { status, text } = await collect(response)
        throw new Refused(status, parsed(socketPath, text), response.headers)
      }
      let rest = ''
      for await (const chunk of chunks(response, patienceMs)) {
        const whole = `${rest}${chunk}`.split('\n')
        rest = whole.pop() ?? ''
        for (const line of whole) if (line !== '') yield line
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Refused || error instanceof Unreachable) throw error
      throw new Unreachable(`the agent at ${socketPath} went away (${(error as Error).message})`, { cause: error })
    } finally {
      signal.removeEventListener('abort', stop)
      response.destroy()
    }
  }
}

/** The clock runs only while something is waited for: whoever takes our lines may take his time. */
async function* chunks(response: IncomingMessage, patienceMs: number): AsyncGenerator<string, void, undefined> {
  const source = response.setEncoding('utf8')[Symbol.asyncIterator]()
  for (;;) {
    const silent = new Error(`nothing came for ${patienceMs / 1000} s`)
    const timer = setTimeout(() => response.destroy(silent), patienceMs)
    const { done, value } = await source.next().finally(() => clearTimeout(timer))
    if (done) return
    yield String(value)
  }
}
