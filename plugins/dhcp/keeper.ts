/** Writes down what the responder tells of leases, many at once, and what time does to them. */
import { setTimeout as delay } from 'node:timers/promises'
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import type { LeaseEvent } from '../../dataplane/responder/protocol.ts'
import { anyActive, endUnbound, hear, isUntidy, tidy } from './leases.ts'

/** After a failure, which is not theirs. */
const AGAIN_MS = 1000
/** Leases end at full seconds. */
const TICK_MS = 1000
const AT_ONCE = 500

export type KeeperContext = Pick<AreaContext, 'plane' | 'mutate' | 'now' | 'log' | 'read'>

export function keepLeases({ plane, mutate, now, log, read }: KeeperContext): Stop {
  const stopped = new AbortController()
  const { signal } = stopped
  let storing: Promise<void> = Promise.resolve()
  let tidying: Promise<unknown> = anyActive(read, now())
    ? mutate(system('dhcp'), (tx) => endUnbound(tx, now())).catch((error: unknown) =>
        log.error({ err: error }, 'leases whose binding is gone could not be ended'),
      )
    : Promise.resolve()

  /** At once when the area is stopped. */
  const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => {})

  /** Portion by portion, so that other changes get their turn; until it is done, unless the area is stopped. */
  async function store(news: readonly LeaseEvent[]): Promise<void> {
    const left = [...news]
    while (left.length > 0) {
      const portion = left.slice(0, AT_ONCE)
      try {
        await mutate(system('responder'), (tx) => hear(tx, portion, now()))
        left.splice(0, AT_ONCE)
      } catch (error) {
        // The responder keeps it and tells it to the next agent.
        if (signal.aborted) throw error
        log.error({ err: error }, 'leases could not be stored; this is tried again')
        await pause(AGAIN_MS)
      }
    }
  }

  const stop = plane.leases.onLease((news) => {
    // A client waits for it. What comes meanwhile shares the next transaction.
    storing = store(news)
    return storing
  })
  let busy = false
  const clock = setInterval(() => {
    if (busy || !isUntidy(read, now())) return
    busy = true
    tidying = mutate(system('dhcp'), (tx) => tidy(tx, now()))
      .catch((error: unknown) =>
        log.error({ err: error }, 'leases that are over could not be ended; this is tried again'),
      )
      .finally(() => {
        busy = false
      })
  }, TICK_MS)

  return async () => {
    stop()
    clearInterval(clock)
    stopped.abort()
    await Promise.allSettled([tidying, storing])
  }
}
