import type { FastifyBaseLogger } from 'fastify'
import type { Plane } from '../dataplane/plane.ts'
import type { MutableConfig } from './config.ts'

/** The default of `uplink` is the device of the default route, whichever that is at the time. */
export async function followUplink(
  { defaultRoute }: Plane,
  config: MutableConfig,
  log: FastifyBaseLogger,
): Promise<void> {
  const detect = () => config.detect('uplink', defaultRoute.device() ?? '')
  await detect()
  defaultRoute.onChange(() => {
    detect().catch((error: unknown) => log.error({ err: error }, 'the changed uplink could not be put into force'))
  })
}
