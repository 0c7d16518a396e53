/** The machine registry, as the tests of this area reach it. */
import { join } from 'node:path'
import { listenControl } from '../../../core/transport/listener.ts'
import { overSocket } from '../../../test/agent.ts'
import { type BuildAgentOptions, buildArea, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import type { Machine } from '../schemas.ts'

export const P = '/api/v1'
export const M = '/control/v1/compute/machines'
export const NOW = '2030-01-01T00:00:00.000Z'
const AREAS = ['node', 'ipam', 'l2', 'networks', 'compute']

/** An agent with the areas that machines need, and its control socket. */
export async function machines(t: Scope, options: BuildAgentOptions = {}) {
  const built = await buildArea(t, 'compute', { only: AREAS, now: () => new Date(NOW), ...options })
  const { agent, call, plane } = built
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const control = overSocket(listener.where)
  return {
    ...built,
    control,
    socket: listener.where,
    attach: (body: object) => control('POST', M, body),
    list: async () => (await control('GET', M)).body.machines as Machine[],
    /** A network `lab` 10.0.0.0/24 and the range 8.8.4.0/30. */
    async ground() {
      await call('POST', `${P}/networks`, { name: 'lab', cidr: '10.0.0.0/24', gateway: '10.0.0.1' })
      await call('POST', `${P}/routed-addresses`, { cidr: '8.8.4.0/30' })
      const { networks } = (await call('GET', `${P}/networks`)).body as { networks: { id: string }[] }
      return networks[0]?.id ?? ''
    },
    async unchanged<T>(work: () => Promise<T>): Promise<T> {
      const before = JSON.stringify(snapshot({ agent, plane }))
      const result = await work()
      if (JSON.stringify(snapshot({ agent, plane })) !== before) throw new Error('something changed')
      return result
    },
  }
}
