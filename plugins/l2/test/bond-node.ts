/** An agent over netlink alone in this process, which can be ended and started anew on what it has stored. */
import type { Test } from 'tap'
import { buildAgent, scratch } from '../../../test/build.ts'
import { netlinkPlane } from './netlink-plane.ts'

export interface Shown {
  active_slave: string
  members: { interface: string; state: string }[]
}

export async function bondNode(t: Test) {
  const stateDir = scratch(t)
  const start = () => buildAgent({ teardown: () => {} }, { openPlane: netlinkPlane, only: ['node', 'l2'], stateDir })
  const now = { ...(await start()) }
  t.teardown(() => now.agent.close())
  const ok = async (method: string, path: string, body?: unknown) => {
    const answer = await now.call(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  return {
    ok,
    call: (method: string, path: string, body?: unknown) => now.call(method, path, body),
    bond: async (id: string) => (await ok('GET', `/api/v1/bonds/${id}`)).bond as Shown,
    events: () => now.agent.outbox.after(0, 1000),
    /** `between` happens while no agent runs. */
    async again(between: () => void = () => {}) {
      await now.agent.close()
      between()
      Object.assign(now, await start())
    },
  }
}
