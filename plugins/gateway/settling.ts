/** Keeps the stored role as the circumstances make it: what a boot, a restart or another configuration did to it. */
import type { AreaContext, Stop } from '../../core/area.ts'
import { system } from '../../core/state/events.ts'
import { bootId } from './boot.ts'
import { circumstances } from './role.ts'
import { settle, unsettled } from './rules.ts'

const KEYS = ['gateway_vip', 'gateway_peer', 'gateway_interface', 'uplink']

export async function startSettling({ config, read, mutate, onCommit, log }: AreaContext): Promise<Stop> {
  const now = () => circumstances(config, bootId())
  const follow = async () => {
    if (!unsettled(read, now())) return
    try {
      await mutate(system('gateway'), (tx) => settle(tx, now()))
    } catch (error) {
      // The row says the same by what it is read with; the next change tries again.
      log.error({ err: error }, 'the role of this node as a gateway could not be stored')
    }
  }
  await follow()
  const stops = [config.onChange((key) => (KEYS.includes(key) ? follow() : undefined)), onCommit(() => void follow())]
  return () => {
    for (const stop of stops) stop()
  }
}
