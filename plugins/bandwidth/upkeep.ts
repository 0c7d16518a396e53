/** What no request brings: the ceiling of the licence, and pairs of devices that nothing lies on any longer. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { CEILING_REF, idleShards, shardRef } from './place.ts'
import { queries } from './queries.ts'

/** How soon another licence counts. */
const LOOK_MS = 1000

export function startUpkeep(context: AreaContext): Stop {
  const { read, mutate, licence, log, onCommit } = context
  let busy: Promise<void> | undefined
  let again = false
  let stopped = false

  async function work(): Promise<void> {
    const view = licence()
    // Without a licence what was licensed last goes on.
    const gbps = view.installed ? view.max_bandwidth_gbps : undefined
    const held = queries(read).ceiling.get()?.gbps ?? 0
    const ceiling = gbps !== undefined && gbps !== held
    if (!ceiling && idleShards(read).length === 0) return
    await mutate(system('bandwidth'), (tx) => {
      if (ceiling) queries(tx).setCeiling.run({ gbps })
      const idle = idleShards(tx)
      for (const shard of idle) queries(tx).removeShard.run({ shard })
      return { result: undefined, touch: [...(ceiling ? [CEILING_REF] : []), ...idle.map(shardRef)], events: [] }
    })
  }

  const look = () => {
    again = true
    busy ??= (async () => {
      // The first turn goes to whoever called.
      await Promise.resolve()
      while (again && !stopped) {
        again = false
        await work().catch((error: unknown) =>
          log.warn({ err: error }, 'upkeep of bandwidth failed; it is tried again'),
        )
      }
      busy = undefined
    })()
  }
  const timer = setInterval(look, LOOK_MS)
  timer.unref()
  const stopListening = onCommit(look)
  look()
  return async () => {
    stopped = true
    clearInterval(timer)
    stopListening()
    await busy
  }
}
