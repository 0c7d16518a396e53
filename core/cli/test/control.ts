/** Command lines run inside the test, and something that answers like an agent. */
import http, { type RequestListener } from 'node:http'
import { dirname, join } from 'node:path'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { placesFrom } from '../../environment.ts'
import { openAsk, openClient } from '../client.ts'
import { openLines } from '../lines.ts'
import { type Outside, run } from '../program.ts'
import type { Verb } from '../verb.ts'

export interface Ran {
  code: number
  out: string
  err: string
}
/** Runs one command line, its words separated by single blanks, or given one by one. */
export type Ctl = (line: string | readonly string[], stdin?: string) => Promise<Ran>

export function ctlFor(
  verbs: readonly Verb[],
  socket: string,
  patienceMs?: number,
  outside: Partial<Outside> = {},
): Ctl {
  return async (line, stdin = '') => {
    const [out, err]: [string[], string[]] = [[], []]
    const code = await run(typeof line === 'string' ? line.split(' ') : line, verbs, {
      call: openClient(socket, patienceMs),
      ask: openAsk(socket, patienceMs),
      lines: openLines(socket, () => new AbortController().signal, patienceMs),
      drained: async () => {},
      stdin: async () => stdin,
      out: (text) => void out.push(text),
      err: (text) => void err.push(text),
      places: placesFrom({ STRATUM_RUN_DIR: dirname(socket) }),
      screen: () => undefined,
      ...outside,
    })
    return { code, out: out.join(''), err: err.join('') }
  }
}

export interface FakeControl {
  socket: string
  /** `METHOD path body` of every call, in order. */
  asked: string[]
}

/** A control socket that answers every call with `status` and `body`. */
export function fakeControl(t: Scope, status: number, body: unknown): Promise<FakeControl> {
  const asked: string[] = []
  return listenAt(t, asked, async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    asked.push(`${request.method} ${request.url} ${text}`.trimEnd())
    response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
    response.end(JSON.stringify(body))
  })
}

/** A control socket with a mind of its own. */
export async function listenAt(t: Scope, asked: string[], listener: RequestListener): Promise<FakeControl> {
  const socket = join(scratch(t, 'ctl'), 'control.sock')
  const server = http.createServer(listener)
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { socket, asked }
}
