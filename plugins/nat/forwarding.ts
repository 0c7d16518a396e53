/** What is translated is also forwarded: by the uplink, and by the devices of source NAT. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { queries } from './queries.ts'

/**
 * Switches IPv4 forwarding on at these devices once a rule needs it, and never off again: others may have come to rely on
 * it. For IPv6 it is one setting of the whole node, which also ends its listening to routers: that is the operator's.
 */
export function followForwarding({ plane, config, read, onCommit, log }: AreaContext): Stop {
  const done = new Set<string>()
  const ensure = (device: string) => {
    if (device === '' || done.has(device)) return
    try {
      if (plane.devices.ensureForwarding(device)) log.info({ device }, 'the device forwards now')
      done.add(device)
    } catch (error) {
      log.error({ err: error, device }, 'forwarding could not be switched on')
    }
  }
  const follow = () => {
    if (queries(read).any.get() === undefined) return
    ensure(config.text('uplink'))
    for (const { name } of queries(read).snatInterfaces.all()) ensure(name)
  }
  follow()
  const stops = [onCommit(follow), config.onChange((key) => key === 'uplink' && follow())]
  return () => {
    for (const stop of stops) stop()
  }
}
