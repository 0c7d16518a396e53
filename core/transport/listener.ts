/** Starts and stops the node's HTTP servers over the one Fastify instance. */
import { randomUUID } from 'node:crypto'
import { chmodSync, lstatSync, renameSync, rmSync } from 'node:fs'
import http, { type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import https from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { markControl } from '../gates/client.ts'
import { type Keep, NOT_KEPT } from '../kept-sockets.ts'
import { listenAt } from './listening.ts'
import { endSlowHandshakes, tlsOptions } from './tls.ts'

export type Handler = (request: IncomingMessage, response: ServerResponse) => void

export interface Listener {
  /** `address:port` as bound; the path for the control socket. */
  readonly where: string
  /** Finishes what is in flight for at most `graceMs`, then ends the connections. */
  close(graceMs: number): Promise<void>
}

export interface RestListener extends Listener {
  /** New connections use the new material; the ones that stand are not touched. `ca`: otherwise as it was. */
  setCertificate(material: { cert: string; key: string; ca?: string }): void
}

/** Node would refuse a request without Host with an empty body; we answer it in our shape. */
const OPTIONS = {
  requireHostHeader: false,
  requestTimeout: 30_000,
  headersTimeout: 10_000,
  connectionsCheckingInterval: 2000,
  keepAliveTimeout: 75_000,
}
/** Whoever stops reading an answer holds the connection no longer than this; no answer takes as long to begin. */
const SILENCE_MS = 120_000
/**
 * Whoever asks again and again on one connection learns by the next answer that the connection ends. Closed between two
 * requests, it would cut off one that is on its way.
 */
const LAST_REQUEST_MS = 250

/** Of the agent's question to itself, and how long it may take. */
const [MARK, REACHED_MS] = ['x-stratum-self', 5000]

type Close = (graceMs: number) => Promise<void>

export interface RestOptions {
  address: string
  port: number
  cert: string
  key: string
  ca?: string
  guard?: (server: Server) => void
  keep?: Keep
}

/**
 * HTTPS on `address:port`; there is no plaintext listener. An empty address means all of them. `guard`: see door.ts. With
 * `ca`, clients are asked for a certificate of it, and those without one are served too: the handler tells them apart.
 */
export async function listenRest(handler: Handler, options: RestOptions): Promise<RestListener> {
  let { ca } = options
  const asked = ca === undefined ? {} : { ca, requestCert: true, rejectUnauthorized: false }
  const server = https.createServer({ ...tlsOptions(options), ...asked, ...OPTIONS })
  server.timeout = SILENCE_MS
  endSlowHandshakes(server)
  const close = serve(server, handler)
  options.guard?.(server)
  await listenAt(server, options, options.keep)
  const { address, port, family } = server.address() as AddressInfo
  return {
    where: family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`,
    close,
    setCertificate(material) {
      ca = material.ca ?? ca
      server.setSecureContext({ ...tlsOptions(material), ...(ca !== undefined && { ca }) })
    },
  }
}

/** Plain HTTP on a unix socket of mode 0600. A socket file left by a crash is replaced, by one that listens already. */
export async function listenControl(handler: Handler, path: string, keep = NOT_KEPT): Promise<Listener> {
  const kept = keep.take({ path })
  let close = kept === undefined ? undefined : await takeOver(handler, path, kept)
  if (kept !== undefined && close === undefined) keep.letGo()
  close ??= await bindControl(handler, path, keep)
  // Also of one that somebody has changed meanwhile.
  chmodSync(path, 0o600)
  const end = close
  return {
    where: path,
    async close(graceMs) {
      await end(graceMs)
      if (!keep.outlives) rmSync(path, { force: true })
    },
  }
}

function controlServer(handler: Handler): { server: Server; close: Close } {
  const server = http.createServer(OPTIONS)
  server.on('connection', markControl)
  return { server, close: serve(server, handler) }
}

async function bindControl(handler: Handler, path: string, keep: Keep): Promise<Close> {
  const { server, close } = controlServer(handler)
  // Under a name of its own until it has its mode: Node removes what it has bound when it closes, and a kept socket stays.
  const own = `${path}.${process.pid}`
  rmSync(own, { force: true })
  const umask = process.umask(0o177)
  try {
    await listenAt(server, { path: own }, { ...keep, take: () => undefined })
  } finally {
    process.umask(umask)
  }
  chmodSync(own, 0o600)
  renameSync(own, path)
  return close
}

/** Undefined when `fd` cannot be listened on, or is not what callers at `path` reach: nobody would ever come in there. */
async function takeOver(handler: Handler, path: string, fd: number): Promise<Close | undefined> {
  const { server, close } = controlServer(handler)
  try {
    await listenAt(server, { path }, { ...NOT_KEPT, take: () => fd })
  } catch {
    return undefined
  }
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() && (await isReached(server, path))) return close
  await close(0)
  return undefined
}

/** Whether what is asked at `path` comes to `server`. Its socket is bound under another name, so the name does not tell. */
function isReached(server: Server, path: string): Promise<boolean> {
  const mark = randomUUID()
  return new Promise((resolve) => {
    const end = (reached: boolean) => {
      clearTimeout(timer)
      server.off('request', see)
      asked.destroy()
      resolve(reached)
    }
    const see = ({ headers }: IncomingMessage) => headers[MARK] === mark && end(true)
    server.on('request', see)
    const asked = http.get({ socketPath: path, path: '/api/v1/health', headers: { [MARK]: mark } }, () => end(false))
    asked.on('error', () => end(false))
    const timer = setTimeout(end, REACHED_MS, false)
  })
}

/** Hands requests to `handler`, answers what is no request in our own shape, and knows the connections for the stop. */
function serve(server: Server, handler: Handler): Close {
  const sockets = new Set<Socket>()
  const answering = new WeakMap<Socket, ServerResponse>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  let leaving = false
  const ending = new WeakSet<Socket>()
  server.on('request', (request, response) => {
    // RFC 9112 §9.6: what follows the request whose answer ends the connection is not carried out, since nobody would be told.
    if (ending.has(request.socket)) return
    if (leaving) {
      response.setHeader('connection', 'close')
      ending.add(request.socket)
    }
    answering.set(request.socket, response)
    if (request.httpVersion === '1.1' && request.headers.host === undefined) {
      refuse(response, 400, 'the Host header is required')
    } else handler(request, response)
  })
  server.on('checkExpectation', (_request, response) => refuse(response, 417, 'this expectation cannot be met'))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const response = answering.get(socket)
    // What follows a request must not answer in its place: that answer may say that a change was carried out.
    const pending = response !== undefined && !response.writableFinished && response.req.complete
    if (pending) response.once('close', () => socket.destroy())
    else answerBroken(error, socket)
  })
  const writing = (socket: Socket) => {
    const response = answering.get(socket)
    return response?.writableEnded === true && !response.writableFinished
  }
  return async (graceMs) => {
    // Node takes a connection for idle while its last answer is still on its way, and close() of a server of HTTP would
    // cut that answer short: so only the listening ends here.
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()))
    leaving = true
    if (sockets.size > 0) await Promise.race([closed, wait(LAST_REQUEST_MS)])
    // A connection becomes idle when its last answer is out; nobody need wait for its keep-alive then.
    const closeIdle = () => [...sockets].some(writing) || server.closeIdleConnections()
    closeIdle()
    const idle = setInterval(closeIdle, 50)
    const timer = setTimeout(() => {
      for (const socket of sockets) socket.destroy()
    }, graceMs)
    await closed
    clearTimeout(timer)
    clearInterval(idle)
    // Ends the clocks of a server that no longer listens.
    server.close()
  }
}

function refuse(response: ServerResponse, status: number, error: string): void {
  const body = JSON.stringify({ error })
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': body.length,
    connection: 'close',
  })
  response.end(body)
}

function answerBroken(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, reason, text] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large', 'header fields too large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout', 'the request took too long']
        : [400, 'Bad Request', 'malformed HTTP request']
  const body = JSON.stringify({ error: text })
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
  )
}
