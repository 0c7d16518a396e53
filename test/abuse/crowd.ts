/** A partner: clients that take a connection and give nothing for it, and some that ask without end. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { answerAll, type Partner, type Spawn, startPartner } from './partner.ts'

/** What a client does once its TCP connection stands. */
export type Manner =
  /** Nothing at all. */
  | 'silent'
  /** The beginning of a ClientHello, and a byte a second of the rest. */
  | 'hello'
  /** The TLS handshake, then nothing. */
  | 'idle'
  /** The TLS handshake, then a request (or the preface of HTTP/2) byte by byte. */
  | 'headers'
  /** The TLS handshake, the head of a POST, then its body byte by byte. */
  | 'body'
  /** The TLS handshake, then one request after the other over the same connection. */
  | 'requests'

export interface Group {
  manner: Manner
  port: number
  /** Source address. */
  from: string
  count: number
  token: string
}

export interface Standing {
  /** Connections that stand. */
  open: number
  /** Those that the other side has ended. */
  ended: number
  /** Requests that were answered with 200, and otherwise. */
  answered: number
  refused: number
}

type Question = { come: Group } | { look: Pick<Group, 'manner' | 'port'> } | { leave: 'all' }

export interface Crowd {
  /** Opens the connections of a group. One that is refused stands for a moment and is then reset. */
  come(group: Group): Promise<Standing>
  look(manner: Manner, port: number): Promise<Standing>
  /** Ends all that is left. */
  leave(): Promise<void>
  child: Partner['child']
}

export function startCrowd(spawn: Spawn): Crowd {
  const { ask, child } = startPartner(spawn, import.meta.filename)
  const say = <T>(question: Question) => ask<T>(question)
  return {
    come: (group) => say({ come: group }),
    look: (manner, port) => say({ look: { manner, port } }),
    leave: () => say({ leave: 'all' }),
    child,
  }
}

/** At most so many handshakes of this side at once: it shares the machine with the other. */
const AT_ONCE = 20
const DRIP_MS = 1000
const GRPC = 7071

/** The first bytes of a record with a ClientHello of 250 bytes (RFC 8446 §5.1, §4.1.2), up to within its random. */
const HELLO = Buffer.from('16030100fe010000fa0303a1a2a3a4a5a6', 'hex')

function head({ manner, port, token }: Group): string {
  if (port === GRPC) return 'PRI * HTT'
  const request = manner === 'body' ? 'POST /api/v1/rules' : 'GET /api/v1/health'
  const credentials = `Host: node\r\nAuthorization: Bearer ${token}\r\n`
  const length = manner === 'body' ? 'Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n' : ''
  return `${request} HTTP/1.1\r\n${credentials}${length}`
}

interface Place {
  sockets: Set<Socket>
  standing: Omit<Standing, 'open'>
}

/** Resolves once the connection is as far as its manner takes it without the server's patience, or is ended. */
function connected(group: Group, place: Place): Promise<void> {
  const { manner, port, from } = group
  const to = { port, host: from.includes(':') ? '::1' : '127.0.0.1', localAddress: from }
  const isRaw = manner === 'silent' || manner === 'hello'
  return new Promise((resolve) => {
    const ready = () => {
      if (manner === 'hello') socket.write(HELLO)
      if (manner === 'headers' || manner === 'body') socket.write(head(group))
      if (manner === 'hello' || manner === 'headers' || manner === 'body') drip(socket)
      if (manner === 'requests') requests(socket, group, place.standing)
      resolve()
    }
    const ALPNProtocols = [port === GRPC ? 'h2' : 'http/1.1']
    const socket: Socket = isRaw
      ? connectTcp(to, ready)
      : connectTls({ ...to, rejectUnauthorized: false, ALPNProtocols }, ready)
    place.sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => {
      if (place.sockets.delete(socket)) place.standing.ended++
      resolve()
    })
    socket.resume()
  })
}

function drip(socket: Socket): void {
  const timer = setInterval(() => socket.write('a'), DRIP_MS)
  socket.once('close', () => clearInterval(timer))
}

/** Asks until the connection ends. Answers of health are small: one comes in one piece. */
function requests(socket: Socket, { token }: Group, standing: Place['standing']): void {
  const text = `GET /api/v1/health HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer ${token}\r\n\r\n`
  socket.on('data', (bytes: Buffer) => {
    if (bytes.toString('latin1', 9, 12) === '200') standing.answered++
    else standing.refused++
    socket.write(text)
  })
  socket.write(text)
}

async function serve(): Promise<void> {
  const places = new Map<string, Place>()
  const placeOf = ({ manner, port }: Pick<Group, 'manner' | 'port'>): Place => {
    const key = `${manner} ${port}`
    const place = places.get(key) ?? { sockets: new Set(), standing: { ended: 0, answered: 0, refused: 0 } }
    places.set(key, place)
    return place
  }
  const look = ({ sockets, standing }: Place): Standing => ({ open: sockets.size, ...standing })

  await answerAll<Question>(import.meta.filename, async (question) => {
    if ('look' in question) return look(placeOf(question.look))
    if ('leave' in question) {
      for (const { sockets } of places.values()) for (const socket of sockets) socket.destroy()
      places.clear()
      return undefined
    }
    const { come } = question
    const place = placeOf(come)
    for (let left = come.count; left > 0; left -= AT_ONCE) {
      await Promise.all(Array.from({ length: Math.min(left, AT_ONCE) }, () => connected(come, place)))
    }
    return look(place)
  })
}

await serve()
