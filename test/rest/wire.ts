/** HTTP byte by byte: what a client may send that no client library would. */
import http, { type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import tls from 'node:tls'
import type { Agent } from '../../core/agent.ts'
import { type Handler, type Listener, listenRest } from '../../core/transport/listener.ts'
import { type Certificate, loadCertificate } from '../../core/transport/tls.ts'
import { scratch } from '../build.ts'
import type { Scope } from '../netns.ts'

export interface Served {
  port: number
  /** The server behind the listener, once it has had a request. */
  server(): Server
  certificate: Certificate
  listener: Listener
}

/** REST over TLS on a loopback port of the kernel's choice. */
export async function serve(t: Scope, agent: Agent): Promise<Served> {
  const certificate = await loadCertificate({
    stateDir: scratch(t),
    nodeName: 'node',
    addresses: async () => ['127.0.0.1'],
    now: new Date(),
  })
  agent.publicKey = () => certificate.spkiPem
  let server: Server | undefined
  const handler: Handler = (request, response) => {
    // node:http leaves the server on each of its sockets.
    server = (request.socket as Socket & { server?: Server }).server
    agent.app.routing(request, response)
  }
  const listener = await listenRest(handler, { ...certificate, address: '127.0.0.1', port: 0 })
  t.teardown(() => listener.close(0))
  return {
    port: Number(listener.where.split(':').at(-1)),
    certificate,
    listener,
    server() {
      if (server === undefined) throw new Error('the listener has had no request yet')
      return server
    },
  }
}

/** The same application over plain TCP, for volume. */
export async function servePlain(t: Scope, { app }: Agent): Promise<number> {
  const server = http.createServer(app.routing.bind(app))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // listen() on a port gives an AddressInfo.
  return (server.address() as AddressInfo).port
}

export interface Reply {
  status: number
  /** Names in lower case. */
  headers: Record<string, string>
  text: string
}

export interface Line {
  write(text: string | Buffer): void
  /** Half-closes: nothing more will be sent. */
  end(): void
  /** The next whole response; undefined when the connection ends before. */
  next(): Promise<Reply | undefined>
  /** Resolves with what came and was not read, once the peer has closed. */
  closed(): Promise<string>
  destroy(): void
}

/** Plain, to a loopback port or to a unix socket. */
export const plainLine = (t: Scope, to: number | string): Promise<Line> =>
  open(t, (ready) => {
    const place = typeof to === 'string' ? { path: to } : { host: '127.0.0.1', port: to }
    return connect({ ...place, allowHalfOpen: true }, ready)
  })
export const tlsLine = (t: Scope, port: number): Promise<Line> =>
  open(t, (ready) => {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true })
    return tls.connect({ socket, rejectUnauthorized: false }, ready)
  })

async function open(t: Scope, dial: (ready: () => void) => Socket): Promise<Line> {
  let buffer = ''
  let ended = false
  let wake = () => {}
  const socket = await new Promise<Socket>((resolve, reject) => {
    const dialled: Socket = dial(() => resolve(dialled))
    dialled.once('error', reject)
  })
  t.teardown(() => void socket.destroy())
  const over = () => {
    ended = true
    wake()
  }
  socket.setEncoding('latin1')
  socket.on('data', (text: string) => {
    buffer += text
    wake()
  })
  socket.on('end', over).on('close', over).on('error', over)
  const more = () => new Promise<void>((resolve) => (wake = resolve))

  return {
    write: (text) => void socket.write(text),
    end: () => void socket.end(),
    async next() {
      for (;;) {
        const found = takeReply(buffer)
        if (found !== undefined) {
          buffer = found.rest
          return found.reply
        }
        if (ended) return undefined
        await more()
      }
    },
    async closed() {
      while (!ended) await more()
      return buffer
    },
    destroy: () => void socket.destroy(),
  }
}

/** The first response in `text`, told by its Content-Length; `100 Continue` and chunked ones do not occur here. */
export function takeReply(text: string): { reply: Reply; rest: string } | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = text.slice(0, end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const from = end + 4
  const to = from + Number(headers['content-length'] ?? 0)
  if (text.length < to) return undefined
  return { reply: { status: Number(first.split(' ')[1]), headers, text: text.slice(from, to) }, rest: text.slice(to) }
}
