/** The agent as `main` of startAgent that is not quite the product: with areas of a test, or over another plane. */
import type { Agent } from '../core/agent.ts'
import { type BuildOptions, build } from '../core/app.ts'
import { controlSocket, frrPlaces, placesFrom, responderSocket } from '../core/environment.ts'
import { openLog } from '../core/observe/log.ts'
import { listenControl } from '../core/transport/listener.ts'
import { openKernel } from '../dataplane/kernel.ts'

/** Serves on the control socket alone once it resolves; the plane is the kernel's unless `options` say otherwise. */
export async function serveAgent(
  options: Pick<BuildOptions, 'extraAreas' | 'only'> & Partial<Pick<BuildOptions, 'openPlane'>>,
): Promise<Agent> {
  const places = placesFrom(process.env)
  const { bpfDir } = places
  const log = openLog('info')
  const agent = await build({
    ...{ ...places, environment: process.env, log },
    openPlane: (plane) =>
      openKernel({ ...plane, bpfDir, responderSocket: responderSocket(places), frr: frrPlaces(places) }),
    ...options,
  })
  await listenControl(agent.app.routing.bind(agent.app), controlSocket(places))
  log.info('ready')
  return agent
}
