/**
 * The real agent in a namespace of its own, joined by a cable to the namespace of the test process, which is another
 * process with addresses of its own: keep-alive REST, the event stream and gRPC health over real TLS.
 * A test file that uses this imports test/inside.ts first.
 */
import { once } from 'node:events'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { connect } from 'node:tls'
import { type AgentOptions, type RunningAgent, startAgent } from '../../../test/agent.ts'
import { TOKEN } from '../../../test/build.ts'
import { here } from '../../../test/inside.ts'
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'
import type { Frame } from '../stream/cursor.ts'
import { healthClient, type Listening, listen } from '../stream/test/rig.ts'

export const NODE = '10.77.0.1'
/** Addresses of the test process; what does not say otherwise comes from the first. */
export const [FIRST, SECOND] = ['10.77.0.2', '10.77.0.3']
const PORTS = { rest: 7070, grpc: 7071, events: 7072 }

export interface Reply {
  status: number
  headers: Record<string, unknown>
  body: Record<string, unknown>
  /** The connection is the one of the call before. */
  kept: boolean
}

export type RestLine = (method: string, path: string, body?: unknown, token?: string) => Promise<Reply>

/** `where` as the clients of the rig want it. */
const at = (port: number) => ({ where: `${NODE}:${port}`, setCertificate: () => {}, close: async () => {} })

export interface Live {
  ns: Netns
  agent: RunningAgent
  /** Calls over one connection, for as long as the agent keeps it. */
  rest(from?: string): RestLine
  /** A reader of the stream. */
  reader(from?: string, query?: string): Promise<Listening>
  health(): ReturnType<typeof healthClient>
  /** SHA-256 of the certificate that a new connection to each port is shown. */
  presented(): Promise<string[]>
  /** Writes the panel's file as panels do: beside it, then over it. */
  panel(content: object): void
}

/** `cert` is the file whose certificate the clients trust; without it the agent's own. */
export async function live(t: Scope, options: Omit<AgentOptions, 'ns'> = {}, cert?: string): Promise<Live> {
  const ns = netns(t, 'live')
  // Of a namespace, `veth` needs the name.
  const own = { name: here ?? '' } as Netns
  veth(t, { ns, name: 'up0', addr: `${NODE}/24` }, { ns: own, name: 'cable', addr: [`${FIRST}/24`, `${SECOND}/24`] })
  const agent = await startAgent(t, { ...options, ns })
  const trusted = () => ({ certificate: { cert: readFileSync(cert ?? join(agent.stateDir, 'tls/cert.pem'), 'utf8') } })
  const node = trusted() as Parameters<typeof healthClient>[2]
  const file = join(agent.stateDir, 'panel.json')
  return {
    ns,
    agent,
    rest: (from = FIRST) => restLine(t, from, node.certificate.cert),
    reader: (from = FIRST, query = '') => listen(t, at(PORTS.events), node, query, { localAddress: from }),
    health: () => healthClient(t, at(PORTS.grpc), node),
    presented: () => Promise.all(Object.values(PORTS).map(fingerprint)),
    panel(content) {
      writeFileSync(`${file}.new`, JSON.stringify(content))
      renameSync(`${file}.new`, file)
    },
  }
}

function restLine(t: Scope, localAddress: string, ca: string): RestLine {
  const line = new https.Agent({ keepAlive: true, maxSockets: 1, ca, localAddress })
  t.teardown(() => line.destroy())
  // Not `reusedSocket`: a request that had to wait for the one before to let go of the connection says false.
  let connection: unknown
  return async (method, path, body, token = TOKEN) => {
    const json = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      authorization: `Bearer ${token}`,
      ...(json !== undefined && { 'content-type': 'application/json' }),
    }
    const request = https.request({ host: NODE, port: PORTS.rest, agent: line, method, path, headers })
    request.end(json)
    const [response] = await once(request, 'response')
    const kept = request.socket === connection
    connection = request.socket
    let text = ''
    for await (const part of response.setEncoding('utf8')) text += part
    return {
      status: response.statusCode,
      headers: response.headers,
      body: JSON.parse(text),
      kept,
    }
  }
}

async function fingerprint(port: number): Promise<string> {
  const socket = connect({ host: NODE, port, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] })
  await once(socket, 'secureConnect')
  const { fingerprint256 } = socket.getPeerCertificate()
  socket.destroy()
  return fingerprint256
}

/** Asks until the answer holds, for at most twenty seconds, and resolves with it. */
export async function until<T>(ask: () => T | Promise<T>, holds: (answer: T) => boolean): Promise<T> {
  for (const end = Date.now() + 20_000; ; await wait(20)) {
    const answer = await ask()
    if (holds(answer)) return answer
    if (Date.now() > end) throw new Error(`it does not come: ${JSON.stringify(answer)}`)
  }
}

/** The events among the frames of a reader. */
export const typesOf = ({ frames }: Listening): string[] => frames.map(({ type }: { type: string } | Frame) => type)
