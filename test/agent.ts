/**
 * The real agent, its own process inside a network namespace: `const agent = await startAgent(t, { ns })`.
 * It serves when the promise resolves, and is gone with everything it left on disk when the test ends.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import http, { type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { hashSecret } from '../core/gates/bearer.ts'
import { openOverrides } from '../core/state/overrides.ts'
import { type Answer, scratch, TOKEN } from './build.ts'
import { endFrr } from './frr.ts'
import { PATIENCE } from './kernel-features.ts'
import type { Netns, Scope } from './netns.ts'
import { endResponder } from './responder.ts'
import type { SocketKeeper } from './socket-keeper.ts'

export interface AgentOptions {
  ns: Netns
  /** More environment, over the places that are set here. */
  env?: Record<string, string>
  /** Configuration set before the first start. */
  config?: Record<string, string>
  /** false: no licence installed. */
  licensed?: boolean
  /** true: `call` goes over TLS to port 7070 inside `ns`, at the price of one process a call. */
  rest?: boolean
  /** Program to run instead of core/main.js; it must log `ready` too. */
  main?: string
  /** What the host is called; default: as this one. */
  hostname?: string
  /** A directory that is there, for its state; default: a temporary one. */
  stateDir?: string
  /** Keeps its listening sockets over a restart, as systemd does. */
  keeper?: SocketKeeper
}

/** Calls as the operator; a body is sent as JSON. Rejects when nothing answers. */
export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>

export interface RunningAgent {
  call: Call
  /** The control socket, which can be reached from every namespace. */
  readonly socket: string
  readonly token: string
  /** Another one after a restart. */
  readonly child: ChildProcess
  readonly stateDir: string
  readonly runDir: string
  /** Lines that were logged since the first start, parsed. */
  readonly logged: readonly Record<string, unknown>[]
  /** Ends the agent (SIGTERM unless told otherwise) and resolves to its exit code, null after a signal. */
  kill(signal?: NodeJS.Signals): Promise<number | null>
  /**
   * Ends the agent if it still runs, starts it on the same state, with more environment and another program from then on, and
   * waits until it serves.
   */
  restart(env?: Record<string, string>, main?: string): Promise<void>
}

export const MAIN = join(import.meta.dirname, '..', 'core', 'main.js')
/** A start takes under a second; a machine under load some more. */
const START_MS = 60_000 * PATIENCE

/** Starts the agent in `ns` with temporary places, a token, REST switched on and an evaluation licence. */
export async function startAgent(t: Scope, options: AgentOptions): Promise<RunningAgent> {
  const { ns, config = {}, licensed = true, rest = false } = options
  const [stateDir, runDir] = [options.stateDir ?? scratch(t), scratch(t)]
  const bpfDir = `/sys/fs/bpf/${ns.name}`
  t.teardown(() => rmSync(bpfDir, { recursive: true, force: true }))
  t.teardown(() => endResponder(join(runDir, 'responder.sock')))
  t.teardown(() => endFrr(runDir))
  openOverrides(join(stateDir, 'overrides.json')).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
    content.rest = true
    Object.assign(content.config, config)
  })
  const env = {
    PATH: process.env.PATH,
    STRATUM_STATE_DIR: stateDir,
    STRATUM_RUN_DIR: runDir,
    STRATUM_CONFIG: join(stateDir, 'panel.json'),
    STRATUM_BPF_DIR: bpfDir,
    ...options.env,
  }
  const socket = join(runDir, 'control.sock')
  const logged: Record<string, unknown>[] = []
  let main = options.main ?? MAIN
  const start = () => {
    const command = [process.execPath, main]
    const named = ['unshare', '--uts', 'sh', '-c', 'hostname "$0" && exec "$@"', options.hostname ?? '', ...command]
    const whole = options.hostname === undefined ? command : named
    const { fds, names } = options.keeper?.handOver() ?? { fds: [], names: '' }
    const kept = options.keeper && {
      NOTIFY_SOCKET: options.keeper.path,
      LISTEN_FDS: String(fds.length),
      LISTEN_FDNAMES: names,
    }
    const [program = '', ...args] = kept ? ['sh', '-c', 'LISTEN_PID=$$ exec "$0" "$@"', ...whole] : whole
    return serving(
      ns.spawn(program, args, { env: { ...env, ...kept }, stdio: ['ignore', 'pipe', 'pipe', ...fds] }),
      logged,
    )
  }
  let child = await start()
  const kill = (signal: NodeJS.Signals = 'SIGTERM') => end(child, signal)
  t.teardown(() => kill('SIGKILL'))
  const control = overSocket(socket)
  if (licensed) await control('POST', '/control/v1/license/evaluate')
  return {
    call: rest ? overTls(ns, `https://127.0.0.1:${config.api_port ?? 7070}`) : control,
    socket,
    token: TOKEN,
    get child() {
      return child
    },
    stateDir,
    runDir,
    logged,
    kill,
    async restart(more, other = main) {
      await kill()
      Object.assign(env, more)
      main = other
      child = await start()
    },
  }
}

/** Resolves once the agent has logged that it is ready; rejects with what it said when it ends before. */
async function serving(child: ChildProcess, logged: Record<string, unknown>[]): Promise<ChildProcess> {
  const { stdout, stderr } = child
  if (stdout === null || stderr === null) throw new TypeError('the output of the agent must be piped')
  const said: string[] = []
  stderr.on('data', (bytes: Buffer) => void said.push(bytes.toString()))
  await new Promise<void>((resolve, reject) => {
    const failed = (why: string) => reject(new Error(`the agent ${why}\n${said.join('')}`))
    const timer = setTimeout(() => failed(`is not ready after ${START_MS} ms`), START_MS)
    child.once('exit', (code, signal) => failed(`ended (${signal ?? code}) before it was ready`))
    createInterface({ input: stdout }).on('line', (line) => {
      const entry: Record<string, unknown> = JSON.parse(line)
      logged.push(entry)
      if (entry.msg !== 'ready') return
      clearTimeout(timer)
      resolve()
    })
  })
  return child
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
  return child.exitCode
}

/** Calls over a unix socket, a connection each. */
export function overSocket(socketPath: string): Call {
  return (method, path, body, headers = {}) =>
    new Promise((resolve, reject) => {
      const json = body === undefined ? undefined : JSON.stringify(body)
      const request = http.request(
        { socketPath, method, path, headers: { ...jsonHeaders(json), ...headers }, agent: false },
        (response) => void collect(response).then(resolve, reject),
      )
      request.on('error', reject).end(json)
    })
}

async function collect(response: IncomingMessage): Promise<Answer> {
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return answer(response.statusCode ?? 0, response.headers, text)
}

function answer(status: number, headers: Answer['headers'], text: string): Answer {
  const json = text !== '' && headers['content-type']?.toString().startsWith('application/json')
  return { status, headers, text, body: json ? JSON.parse(text) : {} }
}

const jsonHeaders = (json: string | undefined): Record<string, string | number> =>
  json === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }

const ONE_CALL = `
const { url, method, headers, json, ms } = JSON.parse(process.argv[1])
const options = { method, headers, agent: false, rejectUnauthorized: false, signal: AbortSignal.timeout(ms) }
const request = require('node:https').request(url, options, async (response) => {
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  process.stdout.write(JSON.stringify({ status: response.statusCode, headers: response.headers, text }))
})
request.on('error', (error) => {
  process.stderr.write(options.signal.aborted ? 'no answer within ' + ms + ' ms' : error.message)
  process.exitCode = 1
})
request.end(json)
`

/** Calls over TLS from inside `from`, as the operator; whose certificate it is does not matter. Waits up to `ms`. */
export function overTls(from: Netns, base: string, ms = 10_000): Call {
  return async (method, path, body, headers = {}) => {
    const json = body === undefined ? undefined : JSON.stringify(body)
    const all = { authorization: `Bearer ${TOKEN}`, ...jsonHeaders(json), ...headers }
    const request = { url: `${base}${path}`, method, headers: all, json, ms }
    const child = from.spawn(process.execPath, ['-e', ONE_CALL, JSON.stringify(request)])
    const output = [child.stdout, child.stderr].map(async (stream) => {
      let text = ''
      for await (const part of stream ?? []) text += part
      return text
    })
    const [out = '', problem = ''] = await Promise.all(output)
    if (out === '') throw new Error(`${method} ${base}${path}: ${problem || 'no answer'}`)
    const got: { status: number; headers: Answer['headers']; text: string } = JSON.parse(out)
    return answer(got.status, got.headers, got.text)
  }
}
