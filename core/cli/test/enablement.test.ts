/** What opens the network services and what does not: the real agent, the real CLI, real connections. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { node } from './node.ts'

requireRoot(t)

/** Where a listener on all addresses is found; `knock` tries three ports at each. */
const HERE = ['127.0.0.1', '::1']
const REFUSED = Array(6).fill('ECONNREFUSED')

t.test('enable-01 on a fresh node without a token nothing listens', async (t) => {
  const { ok, knock } = await node(t, { fresh: true })
  t.same(await knock(...HERE), REFUSED)
  t.match(await ok('service status'), /^rest: off: no token$/m)
})

t.test('enable-02 token and certificate, but REST switched off: nothing listens', async (t) => {
  const { ok, knock, agent } = await node(t)
  await ok('service rest off')
  await agent.restart()
  t.match(await ok('service status'), /^rest: off: switched off$/m)
  t.same(await knock(...HERE), REFUSED)
})

t.test('enable-03 enable-04 enable-05 no certificate, no listener; with one, TLS and nothing else', async (t) => {
  const config = { tls_cert: '/nonexistent/cert.pem', tls_key: '/nonexistent/key.pem' }
  const { ok, knock, status, plaintext, agent } = await node(t, { config })
  t.match(await ok('service status'), /^rest: off: no certificate: .*\/nonexistent/m)
  t.same(await knock(...HERE), REFUSED)

  await ok('config unset tls_cert')
  await ok('config unset tls_key')
  await agent.restart()
  t.equal(await status(agent.token), 200)
  t.equal((await knock(...HERE))[0], 'open')
  t.notMatch(await plaintext(7070), /HTTP/)
})

t.test('enable-14 enable-15 the switch opens and closes the listeners, and service status tells each', async (t) => {
  const { ok, knock, status, agent } = await node(t)
  const three = async () => (await ok('service status')).split('\n').slice(0, 3)
  t.equal(await status(agent.token), 200)
  t.match(await three(), [/^rest: listening .+:7070$/, /^grpc: listening .+:7071$/, /^events: listening .+:7072$/])
  await ok('service rest off')
  t.same(await knock(...HERE), REFUSED)
  t.same(await three(), ['rest: off: switched off', 'grpc: off: switched off', 'events: off: switched off'])
  await ok('service rest on')
  t.equal(await status(agent.token), 200)
})

t.test('enable-16 api_bind_address binds to that address only', async (t) => {
  const { ns, ok, knock, status, agent } = await node(t)
  ns.run('ip', 'address', 'add', '10.77.0.1/32', 'dev', 'lo')
  t.match(await ok('config set api_bind_address 10.77.0.1'), /effective at restart/)
  await agent.restart()
  t.equal(await status(agent.token, '10.77.0.1'), 200)
  t.same(await knock(...HERE), REFUSED)
  t.match(await ok('service status'), /^rest: listening 10\.77\.0\.1:7070$/m)
})

t.test('enable-16 an address that comes after the agent is listened on as soon as it is there', async (t) => {
  const { ns, ok, status, agent } = await node(t, { config: { api_bind_address: '10.77.0.2' } })
  t.match(await ok('service status'), /^rest: off: .*EADDRNOTAVAIL/m)
  ns.run('ip', 'address', 'add', '10.77.0.2/32', 'dev', 'lo')
  const signal = AbortSignal.timeout(20_000)
  while (!/^events: listening/m.test(await ok('service status'))) signal.throwIfAborted()
  t.equal(await status(agent.token, '10.77.0.2'), 200)
  const told = agent.logged.filter(({ msg }) => String(msg).includes('cannot listen'))
  t.equal(told.length, 3, 'each service tells once what it waits for')
})

t.test('nothing is torn down under an agent that runs', async (t) => {
  const { ns, ctl, agent } = await node(t)
  const environment = { STRATUM_RUN_DIR: agent.runDir, STRATUM_STATE_DIR: agent.stateDir }
  t.match(await ctl('teardown'), { code: 2, err: /teardown --yes/ })
  t.match(await ctl('teardown --yes', '', environment), {
    code: 1,
    err: /another agent \(pid \d+\) runs.*stop it first/,
  })
  // Nor where its state is elsewhere than the caller believes.
  t.match(await ctl('teardown --yes', '', { ...environment, STRATUM_STATE_DIR: agent.runDir }), {
    code: 1,
    err: /an agent answers at .*stop it first/,
  })
  t.match(ns.run('nft', 'list', 'tables'), /table inet stratum/)
})
