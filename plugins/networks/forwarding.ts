/** The node forwards for its networks: what comes in by the uplink must be let through to br-work, whose setting is its own. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { queries } from './queries.ts'
import { routedQueries } from './routed-queries.ts'

/**
 * Switches forwarding on at the uplink once a network has the node as its gateway or a machine a public address, and never
 * off again: others may have come to rely on it.
 */
export function followForwarding({ plane, config, read, onCommit, log }: AreaContext): Stop {
  const done = new Set<string>()
  const needed = () => queries(read).anyGateway.get() ?? routedQueries(read).anyClaim.get()
  const follow = () => {
    const uplink = config.text('uplink')
    if (uplink === '' || done.has(uplink) || needed() === undefined) return
    try {
      if (plane.devices.ensureForwarding(uplink)) log.info({ uplink }, 'the uplink forwards now')
      done.add(uplink)
    } catch (error) {
      log.error({ err: error, uplink }, 'forwarding could not be switched on at the uplink')
    }
  }
  follow()
  // Both run before the change that needs it is answered.
  const stops = [config.onChange((key) => key === 'uplink' && follow()), onCommit(follow)]
  return () => {
    for (const stop of stops) stop()
  }
}
