import { join } from 'node:path'
import { type Call, overSocket } from '../../test/agent.ts'
import { scratch } from '../../test/build.ts'
import type { Scope } from '../../test/netns.ts'
import type { Agent } from '../agent.ts'
import { listenControl } from '../transport/listener.ts'

/** Calls as the local CLI makes them, over a control socket of `agent` that is open until the test ends. */
export async function controlOf(t: Scope, { app }: Agent): Promise<Call> {
  const path = join(scratch(t, 'control'), 'control.sock')
  const control = await listenControl(app.routing.bind(app), path)
  t.teardown(() => control.close(0))
  return overSocket(path)
}
