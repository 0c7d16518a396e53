/** The VTEP of the node: looked up, and followed while overlays go out by it. */
import type { AreaContext, Stop } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import { system } from '../../core/state/events.ts'
import type { Plane } from '../../dataplane/plane.ts'
import { chooseLocal, type Local } from './local.ts'
import { queries } from './queries.ts'
import { moveLocal, noVtep } from './rules.ts'

/** Addresses come in batches: IPv6 ones one by one, a new lease after the old one has gone. */
const SETTLE_MS = 500

/** The VTEP that the node has now, or what to do about there being none. Rejects with {@link KernelError}. */
export async function localOf({ devices }: Pick<Plane, 'devices'>, config: Config): Promise<Local | string> {
  const [links, addresses] = [await devices.links(), await devices.addresses()]
  return chooseLocal(links, addresses, { address: config.text('vxlan_local_ip'), uplink: config.text('uplink') })
}

/**
 * Moves the overlays when the configuration or the addresses of the node say so. While there is no address, or one that
 * the peers cannot be reached from, they stay where they are.
 */
export function followLocal({ plane, config, read, mutate, log }: AreaContext): Stop {
  const state = { stopped: false, timer: undefined as NodeJS.Timeout | undefined }

  /** `strict`: somebody waits to be told. */
  async function follow(strict = false): Promise<void> {
    if (state.stopped || queries(read).anyNetwork.get() === undefined) return
    const [local, before] = [await localOf(plane, config), queries(read).local.get()]
    if (typeof local === 'string') {
      if (strict) throw noVtep(local)
      return void log.warn({ reason: local }, 'the overlays have no local VTEP')
    }
    if (local.address === before?.address && local.mtu === before.mtu) return
    await mutate(system('vxlan'), (tx) => moveLocal(tx, local))
    log.info({ from: before, to: local }, 'the overlays go out by another local VTEP')
  }
  const failed = (error: unknown) => log.error({ err: error }, 'the overlays could not follow the local VTEP')
  const soon = () => {
    state.timer ??= setTimeout(() => {
      state.timer = undefined
      follow().catch(failed)
    }, SETTLE_MS).unref()
  }

  soon()
  const stops = [
    plane.devices.onAddresses(soon),
    config.onChange((key) => (key === 'vxlan_local_ip' ? follow(true) : undefined)),
    config.onChange((key) => (key === 'uplink' ? follow() : undefined)),
  ]
  return () => {
    state.stopped = true
    clearTimeout(state.timer)
    for (const stop of stops) stop()
  }
}
