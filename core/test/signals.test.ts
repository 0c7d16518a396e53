/** Signals that come while the agent starts for the first time, when its certificate waits for the data plane. */
import { once } from 'node:events'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { MAIN, overSocket } from '../../test/agent.ts'
import { scratch } from '../../test/build.ts'
import { eventually } from '../../test/cluster.ts'
import { netns, requireRoot } from '../../test/netns.ts'
import { endResponder } from '../../test/responder.ts'

t.test('SIGHUP ends no agent that starts, and SIGTERM ends it in order', async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t)
  const [stateDir, runDir] = [scratch(t), scratch(t)]
  const bpfDir = `/sys/fs/bpf/${ns.name}`
  t.teardown(() => rmSync(bpfDir, { recursive: true, force: true }))
  t.teardown(() => endResponder(join(runDir, 'responder.sock')))
  const env = {
    PATH: process.env.PATH,
    STRATUM_STATE_DIR: stateDir,
    STRATUM_RUN_DIR: runDir,
    STRATUM_CONFIG: join(stateDir, 'panel.json'),
    STRATUM_BPF_DIR: bpfDir,
  }
  const child = ns.spawn(process.execPath, [MAIN], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  if (child.stdout === null) throw new TypeError('no pipe')
  const said: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => said.push(JSON.parse(line).msg))
  const ended = once(child, 'exit')
  t.teardown(() => child.kill('SIGKILL'))
  const socket = join(runDir, 'control.sock')
  await eventually('the control socket is there', async () => existsSync(socket))
  t.match((await overSocket(socket)('GET', '/api/v1/status')).body, { status: 'starting' })
  child.kill('SIGHUP')
  child.kill('SIGTERM')
  t.same(await ended, [0, null])
  t.ok(said.includes('stopping; the data plane stays as it is'))
})
