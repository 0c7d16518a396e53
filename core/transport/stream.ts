/**
 * The event stream on 7072: `wss://<node>:7072/api/v1/events`. A handshake passes the gates and is understood, or it is
 * refused as HTTP before the upgrade; after it the agent only sends (D109 to D111).
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import websocket from '@fastify/websocket'
import type { FastifyInstance } from 'fastify'
import type { WebSocket } from 'ws'
import type { Agent } from '../agent.ts'
import { ApiError } from '../errors.ts'
import { clientOf } from '../gates/client.ts'
import type { Keep } from '../kept-sockets.ts'
import type { SecureListener, Service } from '../services.ts'
import { openServer } from './conventions.ts'
import { guardDoor } from './door.ts'
import { listenAt } from './listening.ts'
import { admission } from './stream/admission.ts'
import { helloOf } from './stream/frames.ts'
import { type Question, readQuestion } from './stream/question.ts'
import { openReader, type Reader } from './stream/reader.ts'
import { wakeTogether } from './stream/wake.ts'
import { type Certificate, endSlowHandshakes, tlsOptions } from './tls.ts'

export const EVENTS_PATH = '/api/v1/events'

const PING_MS = 30_000
const SOCKET = {
  /** What a reader sends is ignored; more than this in one message closes with 1009. */
  maxPayload: 1024,
  perMessageDeflate: false,
  /** A reader that takes nothing does not take the close frame either: its connection ends after this, in ms. */
  closeTimeout: 5000,
}
const TIMEOUTS = {
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 2000,
  keepAliveTimeout: 5000,
  /** Until the upgrade. */
  timeout: 30_000,
}

/** RFC 6455 §7.4.1. */
const GOING_AWAY = 1001
const POLICY_VIOLATION = 1008

declare module 'fastify' {
  interface FastifyRequest {
    /** What a reader of the event stream asked for. */
    question: Question | undefined
  }
}

export interface StreamOptions {
  /** Between two pings, ms. */
  pingMs?: number
  keep?: Keep
}

export const eventService = (agent: Agent, keep?: Keep): Service => ({
  name: 'events',
  listen: (certificate) => listenEvents(agent, certificate, { ...(keep && { keep }) }),
})

/** Serves the stream over TLS on `api_bind_address` and `events_port`. @throws what listen(2) says */
export async function listenEvents(
  agent: Agent,
  certificate: Pick<Certificate, 'cert' | 'key'>,
  { pingMs = PING_MS, keep }: StreamOptions = {},
): Promise<SecureListener> {
  const { config, gates, outbox, version } = agent
  const counts = agent.metrics.events
  const log = agent.app.log.child({ service: 'events' })
  const readers = new Map<Reader, string>()

  const app = openServer(log, () => gates)
  const server = createServer({ ...tlsOptions(certificate), ...TIMEOUTS }, (request, response) =>
    app.routing(request, response),
  )
  await mount(app, server, agent, (socket, address, question) => {
    const reader = openReader({ outlet: socket, outbox, question, hello: helloOf(outbox, version), log, counts })
    readers.set(reader, address)
    socket.on('pong', reader.answered)
    socket.once('close', () => {
      reader.gone()
      readers.delete(reader)
    })
  })
  const drop = trackSockets(server)
  endSlowHandshakes(server)
  guardDoor(server, agent)
  await listenAt(server, { address: config.text('api_bind_address'), port: config.int('events_port') }, keep)
  server.on('error', (error) => log.error({ err: error }, 'the event stream cannot accept'))

  const stopWaking = wakeTogether(outbox, readers)
  const turnOut = () => {
    for (const [reader, from] of readers) {
      if (!gates.admits(from)) reader.end(POLICY_VIOLATION, 'source address not allowed')
    }
  }
  // The allow-list takes effect at once, also on those who came in before it was changed, or just while it was.
  const stopJudging = config.onChange((key) => key === 'api_allowed_ips' && turnOut())
  const clock = setInterval(() => {
    turnOut()
    for (const reader of readers.keys()) reader.beat()
  }, pingMs).unref()

  return {
    where: whereOf(server),
    setCertificate: (next) => server.setSecureContext(tlsOptions(next)),
    async close(graceMs) {
      clearInterval(clock)
      stopJudging()
      stopWaking()
      const closed = once(server, 'close')
      server.close()
      for (const reader of readers.keys()) reader.end(GOING_AWAY, 'the agent stops')
      server.closeIdleConnections()
      const timer = setTimeout(drop, graceMs)
      await closed
      clearTimeout(timer)
      await app.close()
    },
  }
}

type Serve = (socket: WebSocket, address: string, question: Question) => void

/** The handshake: gates, path, query, then `serve`. */
async function mount(app: FastifyInstance, server: Server, agent: Agent, serve: Serve): Promise<void> {
  const admit = admission(agent, 'events')
  // Node keeps no clock over a connection that asked for an upgrade; ws stops this one when it takes the connection over.
  server.on('upgrade', (_request, socket: Socket) => {
    socket.setTimeout(TIMEOUTS.headersTimeout, () => socket.destroy())
  })
  app.decorateRequest('question', undefined)
  await app.register(websocket, {
    options: { server, ...SOCKET },
    // ws has closed or is closing by then, with the code that fits; ending the socket here would lose that code.
    errorHandler: (error) => app.log.debug({ err: error }, 'a reader of the event stream broke off'),
    preClose: (done) => done(),
  })
  app.addHook('onRequest', (request, reply, done) => {
    // A refused upgrade ends its connection, whatever the client asked for.
    if (request.ws) reply.header('connection', 'close')
    done(admit(clientOf(request.raw.socket), request.headers.authorization))
  })
  app.route({
    method: 'GET',
    url: EVENTS_PATH,
    preHandler(request, _reply, done) {
      // The query string is parsed into an object of strings and lists of strings.
      request.question = readQuestion(request.query as Record<string, unknown>)
      done()
    },
    handler() {
      throw UPGRADE_REQUIRED
    },
    wsHandler(socket, { raw, question }) {
      // Set by preHandler, before the upgrade.
      if (question !== undefined) serve(socket, clientOf(raw.socket).address, question)
    },
  })
  await app.ready()
  app.websocketServer.on('wsClientError', (error: Error, socket: Duplex) => answerBroken(socket, error.message))
}

const UPGRADE_REQUIRED = new ApiError(426, 'UPGRADE_REQUIRED', 'this path is a WebSocket: ask for an upgrade', {
  connection: 'Upgrade',
  upgrade: 'websocket',
})

/** An upgrade that is no WebSocket handshake (RFC 6455 §4.2.2); here no reply of Fastify is left to answer with. */
function answerBroken(socket: Duplex, problem: string): void {
  const body = JSON.stringify({ error: `not a WebSocket handshake: ${problem}` })
  socket.once('finish', () => socket.destroy())
  socket.end(
    'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json; charset=utf-8\r\n' +
      `Sec-WebSocket-Version: 13\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}

/** Returns what ends every connection that is left. */
function trackSockets(server: Server): () => void {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return () => {
    for (const socket of sockets) socket.destroy()
  }
}

function whereOf(server: Server): string {
  // It listens, on TCP.
  const { address, port, family } = server.address() as AddressInfo
  return family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
}
