/** A node to operate: the real agent in its own namespace, the real stratumctl, and eyes on its ports. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AgentOptions, overTls, type RunningAgent, startAgent } from '../../../test/agent.ts'
import { scratch } from '../../../test/build.ts'
import { type Netns, netns, type Scope } from '../../../test/netns.ts'
import type { Ran } from './control.ts'

const MAIN = join(import.meta.dirname, '../main.js')
const PORTS = [7070, 7071, 7072]

export interface Node {
  ns: Netns
  agent: RunningAgent
  /** The file of the local overrides. */
  overrides: { path: string; read(): string }
  /** Runs stratumctl as its own process, with the agent's run directory and more environment. */
  ctl(line: string, stdin?: string, environment?: Record<string, string>): Promise<Ran>
  /** The same, for lines that must succeed: resolves with standard output, less its last line end. */
  ok(line: string, stdin?: string): Promise<string>
  /** Status of `GET /api/v1/status` over TLS on port 7070; 0 when the connection is refused. */
  status(token: string, address?: string): Promise<number>
  /** What a connection to each of `addresses` on 7070, 7071 and 7072 comes to: `open` or the error's code. */
  knock(...addresses: string[]): Promise<string[]>
  /** What a plaintext HTTP request to a port is answered with, until the connection ends. */
  plaintext(port: number): Promise<string>
}

/** With `fresh`, as after an installation without a token; else a token is set and REST is on, as `startAgent` does it. */
export async function node(t: Scope, options: Omit<AgentOptions, 'ns'> & { fresh?: boolean } = {}): Promise<Node> {
  const { fresh = false, ...rest } = options
  const ns = netns(t)
  const own = fresh ? scratch(t) : undefined
  const agent = await startAgent(t, {
    ns,
    licensed: false,
    ...rest,
    ...(own !== undefined && { env: { STRATUM_STATE_DIR: own } }),
  })
  const overrides = join(own ?? agent.stateDir, 'overrides.json')
  const ctl: Node['ctl'] = (line, stdin = '', environment = {}) => {
    const env = { STRATUM_RUN_DIR: agent.runDir, ...environment }
    return collect(spawn(process.execPath, [MAIN, ...line.split(' ')], { env }), stdin)
  }
  const inside = async (script: string, ...args: string[]) => {
    const stdio: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe']
    const ran = await collect(ns.spawn(process.execPath, ['-e', script, ...args], { stdio }), '')
    if (ran.code !== 0) throw new Error(ran.err)
    return ran.out
  }
  return {
    ns,
    agent,
    ctl,
    overrides: { path: overrides, read: () => readFileSync(overrides, 'utf8') },
    async ok(line, stdin) {
      const { code, out, err } = await ctl(line, stdin)
      if (code !== 0) throw new Error(`stratumctl ${line}: exit code ${code}: ${err}`)
      return out.trimEnd()
    },
    async status(token, address = '127.0.0.1') {
      const call = overTls(ns, `https://${address}:7070`)
      try {
        return (await call('GET', '/api/v1/status', undefined, { authorization: `Bearer ${token}` })).status
      } catch (error) {
        if (String(error).includes('ECONNREFUSED')) return 0
        throw error
      }
    },
    async knock(...addresses) {
      return JSON.parse(await inside(KNOCK, JSON.stringify(PORTS), ...addresses))
    },
    plaintext: (port) => inside(PLAINTEXT, String(port)),
  }
}

async function collect(child: ReturnType<typeof spawn>, stdin: string): Promise<Ran> {
  const texts = [child.stdout, child.stderr].map(async (stream) => {
    const chunks: string[] = []
    for await (const chunk of stream?.setEncoding('utf8') ?? []) chunks.push(chunk)
    return chunks.join('')
  })
  // A command that ends without reading its input closes the pipe.
  child.stdin?.on('error', () => {})
  child.stdin?.end(stdin)
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (status) => resolve(status ?? -1))
  })
  const [out = '', err = ''] = await Promise.all(texts)
  return { code, out, err }
}

const KNOCK = `
const [ports, ...addresses] = process.argv.slice(1)
const knock = (host, port) => new Promise((resolve) => {
  const socket = require('node:net').connect({ host, port, timeout: 10000 })
  socket.once('connect', () => resolve('open')).once('error', ({ code }) => resolve(code)).once('timeout', () => resolve('timeout'))
})
const all = addresses.flatMap((host) => JSON.parse(ports).map((port) => knock(host, port)))
Promise.all(all).then((outcomes) => { process.stdout.write(JSON.stringify(outcomes), () => process.exit(0)) })
`

const PLAINTEXT = `
const socket = require('node:net').connect({ host: '127.0.0.1', port: Number(process.argv[1]), timeout: 10000 })
socket.write('GET /api/v1/health HTTP/1.1\\r\\nHost: node\\r\\nConnection: close\\r\\n\\r\\n')
socket.on('data', (bytes) => process.stdout.write(bytes.toString('latin1')))
socket.on('error', (error) => { if (error.code !== 'ECONNRESET') throw error })
socket.on('timeout', () => { throw new Error('the connection stays open') })
`
