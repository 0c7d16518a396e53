/** A partner: presents credentials on the three ports, from source addresses of one's choice. */
import { once } from 'node:events'
import http2 from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { answerAll, type Partner, type Spawn, startPartner } from './partner.ts'

export type Door = 'rest' | 'grpc' | 'events'

/** One call each, in this order, over as few connections as the port allows. */
export interface Knocks {
  /** Source addresses, in turn. */
  from: string[]
  /** Address of the node, of the same family. */
  to: string
  /** Where they are not the usual ones. */
  ports?: Partial<Record<Door, number>>
  doors: Door[]
  /** Bearer tokens, one a call. */
  tokens: string[]
}

/** What came of a call: let in, no or a wrong credential, blocked or too fast; anything else as it came. */
export type Outcome = 'in' | 'wrong' | 'blocked' | string

export interface Knocker {
  /** The outcomes of each of `all`, in the order of its calls; at most `atOnce` of them at a time. */
  knock(all: readonly Knocks[], atOnce: number): Promise<Outcome[][]>
  child: Partner['child']
}

type Question = { all: Knocks[]; atOnce: number }

export function startKnocker(spawn: Spawn): Knocker {
  const { ask, child } = startPartner(spawn, import.meta.filename)
  return { knock: (all, atOnce) => ask({ all, atOnce } satisfies { all: readonly Knocks[]; atOnce: number }), child }
}

const PORTS: Record<Door, number> = { rest: 7070, grpc: 7071, events: 7072 }
/** Of the two protocols (RFC 6455 §4.2.2 and doc/statuscodes.md of gRPC). */
const OUTCOMES: Readonly<Record<string, Outcome>> = {
  'rest 200': 'in',
  'rest 401': 'wrong',
  'rest 429': 'blocked',
  'events 101': 'in',
  'events 401': 'wrong',
  'events 429': 'blocked',
  'grpc 0': 'in',
  'grpc 16': 'wrong',
  'grpc 8': 'blocked',
}

/** Calls with one token after the other; ends its connections. */
interface Visitor {
  call(token: string): Promise<string>
  leave(): void
}

interface Way {
  from: string
  to: string
  port: number
}

async function dial({ from, to, port }: Way, protocol: string): Promise<TLSSocket> {
  const socket = connectTcp({ host: to, port, localAddress: from })
  await once(socket, 'connect')
  const secure = connect({ socket, rejectUnauthorized: false, ALPNProtocols: [protocol] })
  await once(secure, 'secureConnect')
  return secure
}

/** Over one connection that is kept; answers of this size come in one piece. */
async function atRest(way: Way): Promise<Visitor> {
  const socket = await dial(way, 'http/1.1')
  return {
    async call(token) {
      socket.write(`GET /api/v1/status HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer ${token}\r\n\r\n`)
      const [bytes] = (await once(socket, 'data')) as [Buffer]
      return bytes.toString('latin1', 9, 12)
    },
    leave: () => void socket.destroy(),
  }
}

/** A handshake each, which ends its connection when it is refused. */
async function atEvents(way: Way): Promise<Visitor> {
  return {
    async call(token) {
      const socket = await dial(way, 'http/1.1')
      const upgrade = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${btoa('0123456789abcdef')}\r\n`
      socket.write(`GET /api/v1/events HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer ${token}\r\n${upgrade}\r\n`)
      const [bytes] = (await once(socket, 'data')) as [Buffer]
      socket.destroy()
      return bytes.toString('latin1', 9, 12)
    },
    leave() {},
  }
}

/** `Health/Check` of the node, with the empty message, over one connection that is kept. */
async function atGrpc(way: Way): Promise<Visitor> {
  const secure = await dial(way, 'h2')
  const session = http2.connect('https://node', { createConnection: () => secure })
  return {
    call(token) {
      const headers = { 'content-type': 'application/grpc', te: 'trailers', authorization: `Bearer ${token}` }
      const stream = session.request({ ':method': 'POST', ':path': '/grpc.health.v1.Health/Check', ...headers })
      return new Promise((resolve, reject) => {
        const said = (headers: http2.IncomingHttpHeaders) => {
          if (headers['grpc-status'] !== undefined) resolve(String(headers['grpc-status']))
        }
        stream.on('response', said).on('trailers', said).on('error', reject)
        stream.resume()
        stream.end(Buffer.alloc(5))
      })
    },
    leave: () => session.destroy(),
  }
}

const VISITS: Record<Door, (way: Way) => Promise<Visitor>> = {
  rest: atRest,
  grpc: atGrpc,
  events: atEvents,
}

async function knock({ from: sources, to, ports, doors, tokens }: Knocks): Promise<Outcome[]> {
  const visitors = new Map<string, Visitor>()
  const outcomes: Outcome[] = []
  for (const [n, token] of tokens.entries()) {
    // Both lists have something in them.
    const door = doors[n % doors.length] as Door
    const from = sources[n % sources.length] as string
    const way = { from, to, port: ports?.[door] ?? PORTS[door] }
    const visitor = visitors.get(`${door} ${from}`) ?? (await VISITS[door](way))
    visitors.set(`${door} ${from}`, visitor)
    const status = `${door} ${await visitor.call(token)}`
    outcomes.push(OUTCOMES[status] ?? status)
  }
  for (const visitor of visitors.values()) visitor.leave()
  return outcomes
}

await answerAll<Question>(import.meta.filename, async ({ all, atOnce }) => {
  const outcomes: Outcome[][] = []
  let next = 0
  const work = async () => {
    while (next < all.length) {
      const n = next++
      outcomes[n] = await knock(all[n] as Knocks)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return outcomes
})
