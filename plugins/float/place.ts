/** Keeps in mind which device the addresses are on, for the time in which the node knows no uplink. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { queries } from './queries.ts'
import { rememberPlace } from './rules.ts'

export async function startRemembering({ config, read, mutate, log }: AreaContext): Promise<Stop> {
  const follow = async () => {
    const uplink = config.text('uplink')
    const known = queries(read).place.get()?.interface
    // The first address makes the row.
    if (uplink === '' || known === undefined || known === uplink) return
    try {
      await mutate(system('float'), (tx) => rememberPlace(tx, uplink))
    } catch (error) {
      log.error({ err: error }, 'the device of the floating IPs could not be stored')
    }
  }
  await follow()
  return config.onChange((key) => (key === 'uplink' ? follow() : undefined))
}
