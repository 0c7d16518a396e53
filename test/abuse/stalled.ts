/** A partner: readers of the event stream that complete the handshake and then read nothing more. */
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { answerAll, type Partner, type Spawn, startPartner } from './partner.ts'

/** What the first of them had read when its connection ended. */
export interface Ended {
  code: number
  reason: string
  /** Ids of the events, in the order in which they came. */
  ids: number[]
}

type Question = { open: { url: string; token: string; count: number } } | { resume: 'first' } | { leave: 'all' }

export interface Stalled {
  /** Opens `count` more at `url`; resolves once none of them reads any more. */
  open(url: string, token: string, count: number): Promise<void>
  /** Lets the first of them read on, to its end. */
  resumeFirst(): Promise<Ended>
  /** Ends all of them without a word. */
  leave(): Promise<void>
  child: Partner['child']
}

export function stalledReaders(spawn: Spawn): Stalled {
  const { ask, child } = startPartner(spawn, import.meta.filename)
  const say = <T>(question: Question) => ask<T>(question)
  return {
    open: (url, token, count) => say({ open: { url, token, count } }),
    resumeFirst: () => say({ resume: 'first' }),
    leave: () => say({ leave: 'all' }),
    child,
  }
}

async function open(url: string, token: string): Promise<WebSocket> {
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` }, rejectUnauthorized: false })
  socket.on('error', () => {})
  // The hello is the first message; nothing is read after it.
  socket.once('message', () => socket.pause())
  await once(socket, 'message')
  return socket
}

function readToTheEnd(socket: WebSocket): Promise<Ended> {
  const ids: number[] = []
  socket.on('message', (text) => {
    const { id } = JSON.parse(String(text)) as { id?: number }
    if (id !== undefined) ids.push(id)
  })
  const ended = new Promise<Ended>((resolve) => {
    socket.once('close', (code, reason) => resolve({ code, reason: String(reason), ids }))
  })
  socket.resume()
  return ended
}

async function serve(): Promise<void> {
  const sockets: WebSocket[] = []
  await answerAll<Question>(import.meta.filename, async (question) => {
    if ('open' in question) {
      const { url, token, count } = question.open
      for (let n = 0; n < count; n++) sockets.push(await open(url, token))
      return undefined
    }
    if ('leave' in question) {
      for (const socket of sockets.splice(0)) socket.terminate()
      return undefined
    }
    const [first] = sockets
    return first && readToTheEnd(first)
  })
}

await serve()
