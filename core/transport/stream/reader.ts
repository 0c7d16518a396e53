/**
 * One reader of the stream: hands it a page, waits until the kernel took that page, hands it the next. What it has not
 * come to yet stays in the outbox, so a reader costs a page of memory however far behind it is.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { EventCounts, StreamEnd } from '../../observe/counts.ts'
import type { Outbox } from '../../state/events.ts'
import { type Frame, openCursor } from './cursor.ts'
import type { Hello } from './frames.ts'
import type { Filter, Question } from './question.ts'

/** What a reader needs of its WebSocket. */
export interface Outlet {
  /** `taken` runs once the kernel has the frame, or will never have it. */
  send(text: string, taken: (error?: Error) => void): void
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

/** What the counts call an end with a code; nobody else ends a reader with others. */
const REASONS: Readonly<Record<number, StreamEnd>> = {
  1001: 'stopping',
  1008: 'policy',
  [INTERNAL_ERROR]: 'error',
  [TRY_AGAIN_LATER]: 'slow',
}

interface Backlog {
  readonly frames: number
  readonly bytes: number
  /** Counts one page more; false: that was the last. */
  weigh(): boolean
}

/** What comes after event `since` while a reader takes nothing: counted page by page, and none of it kept. */
function openBacklog(outbox: Outbox, since: number, wants: Filter): Backlog {
  const cursor = openCursor(outbox, { since }, wants)
  let [frames, bytes] = [0, 0]
  return {
    get frames() {
      return frames
    },
    get bytes() {
      return bytes
    },
    weigh() {
      const page = cursor.next()
      frames += page.frames.length
      for (const frame of page.frames) bytes += Buffer.byteLength(JSON.stringify(frame))
      return page.more
    },
  }
}

export interface ReaderParts {
  outlet: Outlet
  outbox: Outbox
  question: Question
  hello: Hello
  log: FastifyBaseLogger
  counts?: Pick<EventCounts, 'opened' | 'frame' | 'ended'> | undefined
}

export function openReader({ outlet, outbox, question, hello, log, counts }: ReaderParts): Reader {
  const { start, wants } = question
  const cursor = openCursor(outbox, start, wants)
  /** Frames the kernel has not taken yet. */
  let unsent = 0
  /** There may be events behind what was handed over. */
  let behind = true
  let ended = false
  let missed = 0
  /** What is there up to here is read at the reader's pace, be it a replay or a burst; what comes later is weighed. */
  let mark = hello.data.latest
  let backlog: Backlog | undefined

  /** False: it had ended before. */
  function finish(reason: StreamEnd): boolean {
    if (ended) return false
    ended = true
    counts?.ended(reason)
    return true
  }

  function end(code: number, reason: string): void {
    if (finish(REASONS[code] ?? 'left')) outlet.close(code, reason)
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
    mark = more ? outbox.bounds().latest : cursor.position
    backlog = undefined
    for (const frame of frames) deliver(frame)
    if (more && frames.length === 0) setImmediate(readOn)
  })

  const weigh = guarded(() => {
    if (unsent === 0) return
    backlog ??= openBacklog(outbox, mark, wants)
    const more = backlog.weigh()
    const slow = unsent + backlog.frames > MAX_FRAMES || backlog.bytes > MAX_BYTES
    if (slow) end(TRY_AGAIN_LATER, 'too slow: come back with since=<last id>')
    else if (more) setImmediate(weigh)
  })

  function deliver(frame: Frame | Hello): void {
    unsent++
    counts?.frame()
    outlet.send(JSON.stringify(frame), (error) => {
      unsent--
      if (error) finish('left')
      if (unsent === 0 && behind) readOn()
    })
  }

  counts?.opened()
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
        finish('dead')
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
    gone: () => void finish('left'),
  }
}
