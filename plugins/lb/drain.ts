/** Ends the draining of backends that were removed: when their connections have ended, and after DRAIN_MS in any case. */
import type { AreaContext } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { DRAIN_MS, endDrains } from './backends.ts'
import { noting } from './evict.ts'
import { queries } from './queries.ts'
import type { BackendRow } from './tables.ts'
import { TIMERS, type Timers } from './timers.ts'
import { measure } from './view.ts'

const TICK_MS = 1000
const AT_ONCE = 256
/** A connection that is being opened is counted once it stands, and counts are put right every few seconds. */
const SETTLE_MS = 10_000

/** Where nobody tells, everybody may have connections. */
const UNKNOWN = { active: () => 1 }

export interface DrainParts extends Pick<AreaContext, 'read' | 'mutate' | 'plane' | 'now' | 'log'> {
  timers?: Timers
}

export interface Drainer {
  /** Resolves when nothing is being ended. */
  idle(): Promise<void>
  stop(): Promise<void>
}

export function startDraining({ read, mutate, plane, now, log, timers = TIMERS }: DrainParts): Drainer {
  let ending: Promise<void> = Promise.resolve()
  let cancel = timers.after(TICK_MS, tick)

  function tick(): void {
    ending = end().finally(() => {
      cancel = timers.after(TICK_MS, tick)
    })
  }

  async function end(): Promise<void> {
    try {
      const numbers = (await over(queries(read).draining.all({ limit: AT_ONCE }))).map(({ number }) => number)
      if (numbers.length === 0) return
      await mutate(
        system('drain'),
        noting({ plane, read }, (tx) => endDrains(tx, numbers)),
      )
    } catch (error) {
      log.error({ err: error }, 'backends that have drained could not be taken away; this is tried again')
    }
  }

  async function over(draining: readonly BackendRow[]): Promise<BackendRow[]> {
    const at = now().getTime()
    const late = draining.filter(({ drainUntil }) => drainUntil <= at)
    const settled = draining.filter(({ drainUntil }) => drainUntil > at && at >= drainUntil - DRAIN_MS + SETTLE_MS)
    if (settled.length === 0) return late
    const { active } = await measure({ plane, read }).catch(() => UNKNOWN)
    return [
      ...late,
      ...settled.filter((row) =>
        queries(read)
          .vip.all({ id: row.vip })
          .some((vip) => active(vip, row) === 0),
      ),
    ]
  }

  return {
    idle: () => ending,
    async stop() {
      cancel()
      await ending
      cancel()
    },
  }
}
