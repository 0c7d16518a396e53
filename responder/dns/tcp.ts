/** DNS over TCP (RFC 7766): pipelined requests, answered in their order, on a bounded number of connections. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { close } from '../../dataplane/libc.ts'
import { addressBytes } from '../../dataplane/netlink/inet.ts'
import { bindSocket, SOCK_STREAM } from '../socket.ts'
import type { Responder } from './respond.ts'

/** With more, the one that has been silent for longest goes. */
const MAX_CONNECTIONS = 256
/** Milliseconds without a whole request, or without taking what was answered. */
const IDLE = 10_000
/** Requests of one turn of the event loop. */
const MAX_REQUESTS = 64
/** Octets that a client has not taken: until it has, none of its requests is read. */
const MAX_UNSENT = 256 << 10
const BACKLOG = 256

export interface TcpListener {
  connections(): number
  close(): Promise<void>
}

/** Binds in the network namespace of the calling thread. Rejects with KernelError or the error of listen(2). */
export async function openTcp(address: string, port: number, respond: Responder['respond']): Promise<TcpListener> {
  const fd = bindSocket(SOCK_STREAM, address, port)
  /** In order of their last request. */
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const [longest] = open
    if (open.size >= MAX_CONNECTIONS) longest?.destroy()
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    serve(socket, respond, () => {
      open.delete(socket)
      open.add(socket)
    })
  })
  try {
    server.listen({ fd, backlog: BACKLOG })
    await once(server, 'listening')
  } catch (error) {
    close(fd)
    throw error
  }
  return {
    connections: () => open.size,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}

/** For one answer with its length in front; what is in it is copied before the next is written. */
const scratch = Buffer.alloc(2 + 65_535)

function serve(socket: Socket, respond: Responder['respond'], onRequest: () => void): void {
  // A client that is gone already has no address.
  if (socket.remoteAddress === undefined) return void socket.destroy()
  const source = addressBytes(socket.remoteAddress.replace(/%.*/, ''))
  const timer = setTimeout(() => socket.destroy(), IDLE)
  let waiting: Buffer = Buffer.alloc(0)
  let ended = false
  let busy = false

  socket.on('error', () => socket.destroy())
  socket.once('close', () => clearTimeout(timer))
  socket.on('data', (chunk: Buffer) => {
    waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk])
    work()
  })
  socket.once('end', () => {
    ended = true
    work()
  })
  socket.on('drain', () => {
    timer.refresh()
    work()
  })

  function work(): void {
    if (busy || socket.destroyed || socket.writableLength > MAX_UNSENT) return
    let at = 0
    let requests = 0
    socket.cork()
    for (; requests < MAX_REQUESTS && socket.writableLength <= MAX_UNSENT; requests++) {
      const length = waiting.length - at >= 2 ? waiting.readUInt16BE(at) : waiting.length
      if (waiting.length - at < 2 + length) break
      answer(at + 2, length)
      at += 2 + length
    }
    socket.uncork()
    waiting = waiting.subarray(at)
    if (requests > 0) {
      timer.refresh()
      onRequest()
    }
    const unsent = socket.writableLength > MAX_UNSENT
    const more = waiting.length >= 2 && waiting.length >= 2 + waiting.readUInt16BE(0)
    if (unsent || more) socket.pause()
    else if (ended) socket.end()
    else socket.resume()
    if (!unsent && more) later()
  }

  /** Others get their turn. */
  function later(): void {
    busy = true
    setImmediate(() => {
      busy = false
      work()
    })
  }

  function answer(at: number, length: number): void {
    const request = { bytes: waiting, at, length, source, sourceAt: 0, sourceSize: source.length, overTcp: true }
    const size = respond(request, scratch, 2)
    if (size === 0) return
    scratch.writeUInt16BE(size, 0)
    socket.write(Buffer.from(scratch.subarray(0, 2 + size)))
  }
}
