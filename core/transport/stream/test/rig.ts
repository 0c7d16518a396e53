/** An agent of the firewall area whose network services listen on loopback, any port, and real clients of them. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import * as grpc from '@grpc/grpc-js'
import { load } from '@grpc/proto-loader'
import { type ClientOptions, WebSocket } from 'ws'
import { type BuildAgentOptions, type BuiltAgent, buildArea, TOKEN } from '../../../../test/build.ts'
import type { Scope } from '../../../../test/netns.ts'
import { mintOperatorKey } from '../../../operator-keys.ts'
import type { SecureListener } from '../../../services.ts'
import { system } from '../../../state/events.ts'
import { listenGrpc } from '../../grpc.ts'
import { listenEvents, type StreamOptions } from '../../stream.ts'
import { type Certificate, loadCertificate } from '../../tls.ts'
import type { Frame } from '../cursor.ts'
import type { Hello } from '../frames.ts'

export const BEARER = `Bearer ${TOKEN}`

export interface Rig extends BuiltAgent {
  certificate: Certificate
  newCertificate(): Promise<Certificate>
  /** Creates `count` rules one after the other, each a change of its own. */
  addRules(count: number): Promise<void>
  /** A fresh operator key, good on REST. */
  operatorKey(): Promise<string>
}

export async function rig(t: Scope, options: BuildAgentOptions = {}): Promise<Rig> {
  const config = {
    api_bind_address: '127.0.0.1',
    grpc_port: '0',
    events_port: '0',
    api_rate_burst: '100000',
    ...options.config,
  }
  const built = await buildArea(t, 'firewall', { ...options, config })
  const { agent, call, stateDir } = built
  const certificateIn = (dir: string) =>
    loadCertificate({ stateDir: dir, nodeName: 'node-1', addresses: async () => [], now: new Date() })
  return {
    ...built,
    certificate: await certificateIn(stateDir),
    newCertificate: () => certificateIn(`${stateDir}/next`),
    async addRules(count) {
      for (let n = 0; n < count; n++) {
        const { status, text } = await call('POST', '/api/v1/rules', { action: 'drop', dest_port: 0 })
        if (status !== 201) throw new Error(text)
      }
    },
    async operatorKey() {
      const { result } = await agent.pipeline.mutate('core', system('test'), (tx) =>
        mintOperatorKey(tx, 'panel', new Date()),
      )
      agent.operatorKeys.reload()
      return result.key
    },
  }
}

export async function serveEvents(t: Scope, { agent, certificate }: Rig, options?: StreamOptions) {
  const listener = await listenEvents(agent, certificate, options)
  t.teardown(() => listener.close(100))
  return listener
}

export async function serveHealth(t: Scope, { agent, certificate }: Rig, options?: { pollMs?: number }) {
  const listener = await listenGrpc(agent, certificate, options)
  t.teardown(() => listener.close(100))
  return listener
}

export interface Listening {
  socket: WebSocket
  frames: (Frame | Hello)[]
  /** Resolves once `count` frames came, the hello counted. */
  until(count: number): Promise<void>
  closed: Promise<{ code: number; reason: string }>
}

/** A reader of the stream with the node token; ends with the test. */
export async function listen(
  t: Scope,
  { where }: SecureListener,
  { certificate }: Pick<Rig, 'certificate'>,
  query = '',
  options: ClientOptions = {},
): Promise<Listening> {
  const socket = new WebSocket(`wss://${where}/api/v1/events${query}`, {
    ca: certificate.cert,
    headers: { authorization: BEARER },
    ...options,
  })
  t.teardown(() => socket.terminate())
  const frames: Listening['frames'] = []
  socket.on('message', (data) => void frames.push(JSON.parse(String(data))))
  socket.on('error', () => {})
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.once('close', (code, reason) => resolve({ code, reason: String(reason) }))
  })
  await once(socket, 'open')
  return {
    socket,
    frames,
    async until(count) {
      while (frames.length < count) await Promise.race([once(socket, 'message'), closed.then(gaveUp(count, frames))])
    },
    closed,
  }
}

const gaveUp = (count: number, frames: readonly unknown[]) => (end: unknown) => {
  throw new Error(`closed with ${frames.length} of ${count} frames: ${JSON.stringify(end)}`)
}

export const idsOf = (frames: readonly (Frame | Hello)[]): number[] =>
  frames.flatMap((frame) => ('id' in frame ? [frame.id] : []))

/** The HTTP answer to a handshake that is refused. */
export async function refusal(
  { where }: SecureListener,
  { certificate }: Pick<Rig, 'certificate'>,
  path: string,
  headers: Record<string, string> = {},
) {
  const socket = new WebSocket(`wss://${where}${path}`, { ca: certificate.cert, headers })
  socket.on('error', () => {})
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  let text = ''
  for await (const chunk of response) text += chunk
  return { status: response.statusCode, headers: response.headers, body: JSON.parse(text) as { error: string } }
}

/** Lets everything that is due run. */
export async function settle(turns = 20): Promise<void> {
  for (let n = 0; n < turns; n++) await turn()
}

type Status = { status: string }

export interface HealthClient {
  check(service: string, authorization?: string): Promise<Status>
  list(authorization?: string): Promise<{ statuses: Record<string, Status> }>
  watch(service: string, authorization?: string): grpc.ClientReadableStream<Status>
  /** Calls any method of any service with a raw message. */
  raw(path: string, message: Buffer): Promise<Buffer>
}

/** A health client that speaks the file in proto/; its promises reject with the gRPC error (`code`). */
export async function healthClient(
  t: Scope,
  { where }: SecureListener,
  { certificate }: Pick<Rig, 'certificate'>,
): Promise<HealthClient> {
  const file = new URL('../../../../proto/health.proto', import.meta.url).pathname
  const loaded = await load(file, { enums: String, defaults: true })
  const Health = grpc.makeClientConstructor(loaded['grpc.health.v1.Health'] as grpc.ServiceDefinition, 'Health')
  const client = new Health(where, grpc.credentials.createSsl(Buffer.from(certificate.cert)), {
    'grpc.ssl_target_name_override': 'localhost',
    // Every client has connections of its own.
    'grpc.use_local_subchannel_pool': 1,
  })
  t.teardown(() => client.close())
  const metadata = (authorization?: string) => {
    const made = new grpc.Metadata()
    if (authorization !== undefined && authorization !== '') made.set('authorization', authorization)
    return made
  }
  const unary = <T>(method: string, request: object, authorization?: string) =>
    new Promise<T>((resolve, reject) => {
      client[method]?.(request, metadata(authorization), (error: Error | null, answer: T) =>
        error === null ? resolve(answer) : reject(error),
      )
    })
  const same = (bytes: Buffer) => bytes
  return {
    check: (service, authorization = BEARER) => unary('Check', { service }, authorization),
    list: (authorization = BEARER) => unary('List', {}, authorization),
    watch: (service, authorization = BEARER) => client.Watch?.({ service }, metadata(authorization)),
    raw: (path, message) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(path, same, same, message, metadata(BEARER), (error, answer) =>
          error === null ? resolve(answer ?? Buffer.alloc(0)) : reject(error),
        )
      }),
  }
}
