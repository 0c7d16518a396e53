/** Restarts that nobody notices who calls: the listening sockets are kept and handed over. */
import { spawnSync } from 'node:child_process'
import { chmodSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { overSocket, type RunningAgent, startAgent } from '../../test/agent.ts'
import { scratch, TOKEN } from '../../test/build.ts'
import { caller } from '../../test/caller.ts'
import { eventually } from '../../test/cluster.ts'
import { type Netns, netns, requireRoot } from '../../test/netns.ts'
import { type SocketKeeper, socketKeeper } from '../../test/socket-keeper.ts'

requireRoot(t)

/** Not limited by rate: it is counted who is answered. */
const CONFIG = { api_rate_limit: '1000000', api_rate_burst: '100000' }

async function kept(t: Test): Promise<{ ns: Netns; keeper: SocketKeeper; agent: RunningAgent }> {
  const ns = netns(t)
  const keeper = socketKeeper(t, scratch(t))
  const agent = await startAgent(t, { ns, keeper, config: CONFIG })
  return { ns, keeper, agent }
}

t.test('whoever asks 200 times a second while the agent is restarted and killed is always answered', async (t) => {
  const { ns, keeper, agent } = await kept(t)
  t.same(keeper.names(), ['control', 'events', 'grpc', 'rest'])
  const asking = await caller(ns, TOKEN)
  const before = agent.child.pid
  for (let round = 0; round < 3; round++) await agent.restart()
  t.not(agent.child.pid, before)
  const orderly = await asking.end()
  t.same(orderly.failed, [], `${orderly.asked} asked, the longest waited ${orderly.longest.toFixed()} ms`)
  t.equal(orderly.answered, orderly.asked)
  t.ok(orderly.asked > 100)
  t.same(keeper.names(), ['control', 'events', 'grpc', 'rest'], 'each is kept once')

  const survivor = await caller(ns, TOKEN)
  await agent.kill('SIGKILL')
  await agent.restart()
  const { asked, failed } = await survivor.end()
  // Of connections that stood at a kill the kernel tells the other side; none is refused.
  t.notOk(
    failed.includes('ECONNREFUSED'),
    `${failed.length} of ${asked} broken off by the kill: ${[...new Set(failed)]}`,
  )
  t.ok(failed.length < asked / 2)
})

t.test('who comes to the control socket while there is no agent is answered by the next one', async (t) => {
  const { agent } = await kept(t)
  await agent.kill()
  const answer = overSocket(agent.socket)('GET', '/api/v1/status')
  await agent.restart()
  t.equal((await answer).status, 200)
})

t.test('what is switched off is kept no longer, and an address that changed is another socket', async (t) => {
  const { ns, keeper, agent } = await kept(t)
  const listens = () =>
    ns
      .run('ss', '-Hltn')
      .match(/:70\d\d\b/g)
      ?.sort()
      .join()
  t.equal(listens(), ':7070,:7071,:7072')
  await agent.call('PUT', '/control/v1/services/rest', { on: false })
  t.same(keeper.names(), ['control'])
  t.equal(listens(), undefined, 'nobody could come in and wait for ever')
  await agent.restart()
  t.equal(listens(), undefined)
  await agent.call('PUT', '/control/v1/services/rest', { on: true })
  t.same(keeper.names(), ['control', 'events', 'grpc', 'rest'])
  await agent.call('PUT', '/control/v1/config/api_port', { value: '7079' })
  await agent.call('PUT', '/control/v1/config/api_bind_address', { value: '127.0.0.1' })
  await agent.restart()
  // The kept sockets of all addresses stand in the way of those of one until they are closed; then it is tried again.
  await eventually('all listen on the address', async () => {
    const all = ns.run('ss', '-Hltn')
    return [7071, 7072, 7079].every((port) => all.includes(`127.0.0.1:${port}`))
  })
  t.equal(listens(), ':7071,:7072,:7079')
  t.same(keeper.names(), ['control', 'events', 'grpc', 'rest'])
})

t.test('descriptors that are for another process are left alone', async (t) => {
  const ns = netns(t)
  const agent = await startAgent(t, { ns, env: { LISTEN_PID: '1', LISTEN_FDS: '2', LISTEN_FDNAMES: 'rest:grpc' } })
  t.equal((await agent.call('GET', '/api/v1/status')).status, 200)
})

t.test('a control socket that callers do not reach any more is made anew, and kept', async (t) => {
  const { keeper, agent } = await kept(t)
  const usable = async (what: string) => {
    await agent.restart()
    t.equal((await agent.call('GET', '/api/v1/status')).status, 200, what)
    t.equal(statSync(agent.socket).mode & 0o777, 0o600, what)
    t.same(keeper.names(), ['control', 'events', 'grpc', 'rest'], what)
  }
  await agent.kill()
  rmSync(agent.socket)
  await usable('its file is gone')
  await agent.kill()
  chmodSync(agent.socket, 0o666)
  await usable('somebody has opened it to all')
  await agent.kill()
  rmSync(agent.socket)
  // Bound and not closed, as by an agent that was killed.
  const bind = `require('node:net').createServer().listen('${agent.socket}', () => process.kill(process.pid, 'SIGKILL'))`
  spawnSync(process.execPath, ['-e', bind])
  t.ok(statSync(agent.socket).isSocket())
  await usable('the file is the socket of one that is dead')
  await agent.kill()
  rmSync(agent.socket)
  writeFileSync(agent.socket, 'no socket')
  await usable('the file is none')
})

t.test('what is no socket is not taken for one, nor closed', (t) => {
  const module = pathToFileURL(join(import.meta.dirname, '..', 'kept-sockets.js'))
  const program = `
    const { openKeptSockets } = await import('${module}')
    const { openSync, fstatSync } = await import('node:fs')
    const own = openSync('/dev/null')
    const env = { LISTEN_PID: String(process.pid), LISTEN_FDS: '64', LISTEN_FDNAMES: 'control' }
    const kept = openKeptSockets({ keep() {}, letGo() {} }, env)
    if (kept.under('control').take({ path: '/x' }) !== undefined) throw new Error('taken')
    kept.closeRest()
    fstatSync(own)`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program])
  t.equal(status, 0, String(stderr))
  t.end()
})
