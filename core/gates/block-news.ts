/**
 * Tells of addresses that were blocked, in the log and as `auth.blocked`. Whoever makes failures by the thousand, from
 * addresses by the thousand, must neither push everything else out of the stream nor keep the pipeline busy: within a
 * window the first few are told one by one, and how many more there were in one event at its end.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Announce } from '../state/announce.ts'
import { system } from '../state/events.ts'
import type { NewBlock } from './lockout.ts'

const WINDOW_MS = 10_000
const SINGLY = 10

export interface BlockNews {
  tell(block: NewBlock): void
  close(): void
}

export function openBlockNews(announce: Announce, log: FastifyBaseLogger, windowMs = WINDOW_MS): BlockNews {
  let told = 0
  let more = 0
  let window: NodeJS.Timeout | undefined

  function send(data: object): void {
    log.warn(data, 'source addresses are blocked for failed authentication')
    const draft = { type: 'auth.blocked', resource: '/control/v1/blocks', data }
    announce(system('lockout'), () => [draft]).catch((error: unknown) => {
      log.error({ err: error }, 'the event of a blocked address could not be stored')
    })
  }

  function endWindow(): void {
    window = undefined
    if (more > 0) send({ more })
    told = more = 0
  }

  return {
    tell(block) {
      window ??= setTimeout(endWindow, windowMs).unref()
      if (told === SINGLY) {
        more++
        return
      }
      told++
      send({ ...block })
    },
    close: () => clearTimeout(window),
  }
}
