/** The way in that is always open, to root and to nobody else: the real agent and the real CLI. */
import { execFileSync } from 'node:child_process'
import { chmodSync, statSync } from 'node:fs'
import t from 'tap'
import { overSocket } from '../../../test/agent.ts'
import { requireRoot } from '../../../test/netns.ts'
import { node } from './node.ts'

requireRoot(t)

t.test('enable-24 the control socket answers without any token', async (t) => {
  const { ok, agent } = await node(t, { fresh: true })
  const answers = async () => {
    t.match(await ok('status'), /^status +running$/m)
    t.equal((await overSocket(agent.socket)('GET', '/api/v1/status')).status, 200)
  }
  await answers()
  await ok('api-token generate')
  await ok('service rest on')
  await agent.restart()
  await answers()
})

t.test('enable-25 nothing that can be configured switches the control socket off', async (t) => {
  const { ctl, ok, agent } = await node(t)
  const control = overSocket(agent.socket)
  await ok('service rest off')
  for (const line of ['service control off', 'service all off', 'service rest off control']) {
    t.equal((await ctl(line)).code, 2, line)
  }
  const { config }: { config: { key: string }[] } = JSON.parse(await ok('config list --json'))
  const { areas }: { areas: { name: string }[] } = JSON.parse(await ok('service status --json'))
  const names = areas.map(({ name }) => name).join(',')
  for (const { key } of config) {
    const taken: string[] = []
    const values = [
      '',
      'off',
      '0',
      '1',
      '1000',
      '10000',
      '192.0.2.1',
      '/nonexistent',
      'error',
      'closed',
      'named',
      names,
    ]
    for (const value of values) {
      const { status } = await control('PUT', `/control/v1/config/${key}`, { value })
      if (status === 200) taken.push(value)
    }
    t.ok(taken.length > 0, `${key} took ${taken.join(' ')}`)
    t.equal((await control('GET', '/control/v1/services')).status, 200, key)
  }
  // The ready line, which a restart waits for, is not logged at level error.
  await ok('config unset log_level')
  await agent.restart()
  t.match(await ok('service status'), /^rest: off: /)
})

t.test('enable-26 the control socket is for root only', async (t) => {
  const { agent } = await node(t, { fresh: true })
  const { mode, uid } = statSync(agent.socket)
  t.same([mode & 0o7777, uid], [0o600, 0])
  // So that it is not the directory that keeps others out.
  chmodSync(agent.runDir, 0o755)
  const connect = (who: { uid?: number; gid?: number }) => {
    const options = { encoding: 'utf8', cwd: '/', timeout: 10_000, ...who } as const
    return execFileSync(process.execPath, ['-e', CONNECT, agent.socket], options)
  }
  t.equal(connect({}), 'open')
  t.equal(connect({ uid: 65534, gid: 65534 }), 'EACCES')
})

const CONNECT = `
const said = (word) => process.stdout.write(word, () => process.exit(0))
require('node:net').connect(process.argv[1]).on('connect', () => said('open')).on('error', ({ code }) => said(code))
`
