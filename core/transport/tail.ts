/**
 * The event stream over the control socket, for `stratumctl events tail`: one JSON text a line, an empty line as heartbeat,
 * and as the last line why it ended. Replay, filters and the end of a slow reader are those of the stream on 7072.
 */
import type { ServerResponse } from 'node:http'
import type { FastifyBaseLogger } from 'fastify'
import type { EventCounts } from '../observe/counts.ts'
import type { Outbox } from '../state/events.ts'
import { type End, helloOf } from './stream/frames.ts'
import type { Question } from './stream/question.ts'
import { type Outlet, openReader, type Reader } from './stream/reader.ts'
import { wakeTogether } from './stream/wake.ts'

export const TAIL_TYPE = 'application/x-ndjson'

const BEAT_MS = 30_000
/** How long a reader that was ended may take to read what is on its way to it. */
const LINGER_MS = 30_000
/** The same when the agent stops, which shall not wait for somebody who reads nothing. */
const LEAVE_MS = 500

/** RFC 6455 §7.4.1. */
const GOING_AWAY = 1001

export interface TailParts {
  outbox: Outbox
  version: string
  log: FastifyBaseLogger
  counts?: EventCounts
  /** Between two heartbeats, ms. */
  beatMs?: number
}

export interface Tails {
  /** Writes what `question` asks for after the head of `response`, until either side ends it. */
  serve(response: ServerResponse, question: Question): void
  /** Ends every reader, later ones included. To be called before the server closes, which would wait for them. */
  close(): void
}

export function openTails({ outbox, version, log, counts, beatMs = BEAT_MS }: TailParts): Tails {
  const readers = new Map<Reader, ServerResponse>()
  const stopWaking = wakeTogether(outbox, readers)
  const clock = setInterval(() => {
    for (const reader of readers.keys()) reader.beat()
  }, beatMs).unref()
  let leaving = false

  /** What is committed by now is told first; the last of it may be that the agent stops. */
  function leave(reader: Reader, response: ServerResponse): void {
    reader.wake()
    reader.end(GOING_AWAY, 'the agent stops')
    destroyAfter(response, LEAVE_MS)
  }

  return {
    serve(response, question) {
      const outlet = outletOf(response, () => reader.answered())
      const reader = openReader({ outlet, outbox, question, hello: helloOf(outbox, version), log, counts })
      readers.set(reader, response)
      response.on('error', () => reader.gone())
      response.once('close', () => {
        reader.gone()
        readers.delete(reader)
      })
      if (leaving) leave(reader, response)
    },
    close() {
      leaving = true
      clearInterval(clock)
      stopWaking()
      for (const [reader, response] of readers) leave(reader, response)
    },
  }
}

/** A peer that is gone is told by the socket. A heartbeat that the kernel does not take tells of one that reads nothing. */
function outletOf(response: ServerResponse, answered: () => void): Outlet {
  return {
    send: (text, taken) => void response.write(`${text}\n`, (error) => taken(error ?? undefined)),
    ping: () => void response.write('\n', (error) => error ?? answered()),
    close(code, reason) {
      const end: End = { v: 1, type: 'stream.end', data: { code, reason } }
      response.end(`${JSON.stringify(end)}\n`)
      destroyAfter(response, LINGER_MS)
    },
    terminate: () => void response.destroy(),
  }
}

function destroyAfter(response: ServerResponse, ms: number): void {
  const timer = setTimeout(() => response.destroy(), ms).unref()
  response.once('close', () => clearTimeout(timer))
}
