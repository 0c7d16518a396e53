/** Real servers on the loopback device, and checks that find them: backend 10.0.0.<n> is 127.a.b.<n>. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import type { Scope } from '../../../test/netns.ts'
import { type Probe, probe } from '../checks/probe.ts'

export interface Site {
  port: number
  /** Connections so far. */
  asked(): number
  /** Nothing listens from then on. */
  close(): Promise<void>
  /** Listens again, at the same place. */
  open(): Promise<void>
}

export interface Sites {
  probe: Probe
  /** Addresses and ports that were asked for, as the backends have them. */
  asked: string[]
  /** Accepts connections, and says nothing. */
  tcp(n: number): Promise<Site>
  http(n: number, answer: RequestListener): Promise<Site>
  /** A server of another kind. */
  serve(n: number, server: Server): Promise<Site>
}

/** In a place of loopback that no other test has. */
export function sites(t: Scope): Sites {
  const block = `127.${randomInt(1, 255)}.${randomInt(1, 255)}`
  const asked: string[] = []

  async function serve(n: number, server: Server): Promise<Site> {
    const sockets = new Set<Socket>()
    let many = 0
    server.on('connection', (socket: Socket) => {
      many++
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => sockets.delete(socket))
    })
    const listen = async (port: number) => {
      server.listen(port, `${block}.${n}`)
      await once(server, 'listening')
    }
    const close = async () => {
      for (const socket of sockets) socket.destroy()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    }
    t.teardown(close)
    await listen(0)
    const { port } = server.address() as { port: number }
    return { port, asked: () => many, close, open: () => listen(port) }
  }

  return {
    asked,
    serve,
    tcp: (n) => serve(n, createServer()),
    http: (n, answer) => serve(n, createHttpServer(answer)),
    probe: (target, signal) => {
      asked.push(`${target.address}:${target.port}`)
      return probe({ ...target, address: target.address.replace('10.0.0', block) }, signal)
    },
  }
}
