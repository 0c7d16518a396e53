/**
 * One reader of the stream: hands it a page, waits until the kernel took that page, hands it the next. What it has not
 * come to yet stays in the outbox, so a reader costs a page of memory however far behind it is.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Outbox } from '../../state/events.ts'
import { type Frame, openCursor } from './cursor.ts'
import type { Question } from './question.ts'

/** The first frame: which stream this is, and what of it is kept. */
export interface Hello {
  v: 1
  type: 'stream.hello'
  data: { stream: string; oldest: number; latest: number; node: string; version: string }
}

/** What a reader needs of its WebSocket. */
export interface Outlet {
  readonly bufferedAmount: number
  /** `taken` runs once the kernel has the frame. */
  send(text: string, taken: () => void): void
  ping(): void
  close(code: number, reason: string): void
  terminate(): void
}

export interface Reader {
  /** There are new events. */
  wake(): void
  /** A tick of the clock that all readers share: one ping, and the end after two that were not answered. */
  beat(): void
  /** A pong came. */
  answered(): void
  /** Closes with a code of RFC 6455 §7.4.1 or of the registry it opened. */
  end(code: number, reason: string): void
  /** The connection is gone. */
  gone(): void
}

/** More than this waiting for a reader that takes nothing makes it a slow one (D111). */
const MAX_FRAMES = 1000
const MAX_BYTES = 4 * 1024 * 1024
const MAX_MISSED = 2

/** RFC 6455 §7.4.1 and the registry of close codes. */
const INTERNAL_ERROR = 1011
const TRY_AGAIN_LATER = 1013

export interface ReaderParts {
  outlet: Outlet
  outbox: Outbox
  question: Question
  hello: Hello
  log: FastifyBaseLogger
}

export function openReader({ outlet, outbox, question, hello, log }: ReaderParts): Reader {
  const { start, wants } = question
  const cursor = openCursor(outbox, start, wants)
  /** Frames the kernel has not taken yet. */
  let unsent = 0
  /** There may be events behind what was handed over. */
  let behind = true
  let ended = false
  let missed = 0
  let backlog = openBacklog(hello.data.latest)

  /** Weighs, a page at a time, what comes after event `since` while the reader takes nothing; keeps none of it. */
  function openBacklog(since: number) {
    const ahead = { cursor: undefined as ReturnType<typeof openCursor> | undefined, frames: 0, bytes: 0 }
    return {
      weigh(): { slow: boolean; more: boolean } {
        ahead.cursor ??= openCursor(outbox, { since }, wants)
        const { frames, more } = ahead.cursor.next()
        ahead.frames += frames.length
        for (const frame of frames) ahead.bytes += Buffer.byteLength(JSON.stringify(frame))
        const slow = unsent + ahead.frames > MAX_FRAMES || outlet.bufferedAmount + ahead.bytes > MAX_BYTES
        return { slow, more }
      },
    }
  }

  function end(code: number, reason: string): void {
    if (ended) return
    ended = true
    outlet.close(code, reason)
  }

  /** Runs in callbacks where nobody catches: a store that cannot be read costs this reader, not the agent. */
  const guarded = (work: () => void) => () => {
    if (ended) return
    try {
      work()
    } catch (error) {
      log.error({ err: error }, 'the event stream cannot be read')
      end(INTERNAL_ERROR, 'internal error')
    }
  }

  const readOn = guarded(() => {
    if (unsent > 0) return
    const { frames, more } = cursor.next()
    behind = more
    // What is there by now is read at the reader's pace, be it a replay or a burst; only what comes later is weighed.
    backlog = openBacklog(more ? outbox.bounds().latest : cursor.position)
    for (const frame of frames) deliver(frame)
    if (more && frames.length === 0) setImmediate(readOn)
  })

  const weigh = guarded(() => {
    if (unsent === 0) return
    const { slow, more } = backlog.weigh()
    if (slow) end(TRY_AGAIN_LATER, 'too slow: come back with since=<last id>')
    else if (more) setImmediate(weigh)
  })

  function deliver(frame: Frame | Hello): void {
    unsent++
    outlet.send(JSON.stringify(frame), () => {
      unsent--
      if (unsent === 0 && behind) readOn()
    })
  }

  deliver(hello)
  return {
    wake() {
      if (unsent === 0) return readOn()
      behind = true
      weigh()
    },
    beat() {
      if (ended) return
      if (missed === MAX_MISSED) {
        ended = true
        outlet.terminate()
        return
      }
      missed++
      outlet.ping()
    },
    answered() {
      missed = 0
    },
    end,
    gone() {
      ended = true
    },
  }
}
