/** Keeps in mind which device the addresses are on, for the time in which the node knows no uplink. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { queries } from './queries.ts'
import { rememberPlace } from './rules.ts'

export async function startRemembering({
  config,
  read,
  mutate,
  log,
}: Pick<AreaContext, 'config' | 'read' | 'mutate' | 'log'>): Promise<Stop> {
  const follow = async () => {
    const uplink = config.text('uplink')
    if (uplink === '' || queries(read).place.get()?.interface === uplink) return
    if (queries(read).vipPage.get({ after: 0, limit: 1 }) === undefined) return
    try {
      await mutate(system('lb'), (tx) => rememberPlace(tx, uplink))
    } catch (error) {
      log.error({ err: error }, 'the device of the VIPs could not be stored')
    }
  }
  await follow()
  return config.onChange((key) => (key === 'uplink' ? follow() : undefined))
}
