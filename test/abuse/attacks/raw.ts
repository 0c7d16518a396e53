/** Sends bytes over TLS from inside a namespace, as no client of HTTP would, and tells the statuses that come back. */
import { connect } from 'node:tls'
import { answerAll, type Partner, type Spawn, startPartner } from '../partner.ts'

interface Question {
  host: string
  port: number
  /** Latin-1, one connection each. */
  requests: readonly string[]
}

/** Long enough for an answer on a busy machine; a connection that stays open and silent then has none. */
const SILENCE_MS = 5000
const AT_ONCE = 8

export interface Raw {
  /** The statuses of each request's responses, joined by spaces; '' for none. */
  ask(host: string, port: number, requests: readonly string[]): Promise<string[]>
  child: Partner['child']
}

export function startRaw(spawn: Spawn): Raw {
  const { ask, child } = startPartner(spawn, import.meta.filename)
  return { child, ask: (host, port, requests) => ask<string[]>({ host, port, requests } satisfies Question) }
}

function statusesOf(host: string, port: number, request: string): Promise<string> {
  const socket = connect({ host, port, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] })
  let text = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  socket.once('secureConnect', () => void socket.write(request, 'latin1'))
  // A reset is an answer as well: what came before it counts.
  socket.on('error', () => {})
  socket.setTimeout(SILENCE_MS, () => void socket.destroy())
  return new Promise((resolve) => {
    socket.once('close', () => {
      resolve(Array.from(text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm), ([, status]) => status).join(' '))
    })
  })
}

/** Few at a time, so that no limit of connections answers in place of the reader. */
async function inOrder(host: string, port: number, requests: readonly string[]): Promise<string[]> {
  const told: string[] = []
  for (let at = 0; at < requests.length; at += AT_ONCE)
    told.push(...(await Promise.all(requests.slice(at, at + AT_ONCE).map((one) => statusesOf(host, port, one)))))
  return told
}

await answerAll<Question>(import.meta.filename, ({ host, port, requests }) => inOrder(host, port, requests))
