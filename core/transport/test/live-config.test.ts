/** What of the configuration is in force at once, on all three ports and for those who are connected; and what is not. */
import '../../../test/inside.ts'
import { once } from 'node:events'
import { copyFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import type { ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { FIRST, type Live, live, NODE, SECOND, typesOf, until } from './live.ts'

requireRoot(t)

const STATUS = '/api/v1/status'
const NOT_ALLOWED = { status: 403, body: { error: 'forbidden: source address not allowed' } }
/** Codes of gRPC (doc/statuscodes.md). */
const [PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAUTHENTICATED] = [7, 8, 16]

const codeOf = (call: Promise<unknown>): Promise<number | undefined> =>
  call.then(
    () => undefined,
    (error: ServiceError) => error.code,
  )

/** HTTP status of a handshake on the event port; 101 when it is accepted. */
function handshake({ agent }: Live, localAddress: string, token = agent.token): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    }
    const call = request({
      host: NODE,
      port: 7072,
      path: '/api/v1/events',
      localAddress,
      headers,
      rejectUnauthorized: false,
    })
    call.on('response', (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    call.on('upgrade', (_response, socket) => {
      socket.destroy()
      resolve(101)
    })
    call.on('error', reject).end()
  })
}

t.test(
  'auth-16 auth-17 auth-18 api_allowed_ips holds at once on all three ports, also for who is connected',
  async (t) => {
    const node = await live(t)
    const { agent, panel } = node
    const [first, second] = [node.rest(FIRST), node.rest(SECOND)]
    const [leaving, staying] = [await node.reader(FIRST), await node.reader(SECOND)]
    const health = await node.health()
    const watch = health.watch('')
    await once(watch, 'data')
    for (const line of [first, second]) t.match(await line('GET', STATUS), { status: 200, kept: false })

    const ended = once(watch, 'error') as Promise<[ServiceError]>
    const since = performance.now()
    panel({ api_allowed_ips: ['192.0.2.0/24', SECOND] })
    t.match(await leaving.closed, { code: 1008, reason: 'source address not allowed' })
    t.equal((await ended)[0].code, PERMISSION_DENIED)
    // The file is looked at within two seconds, and a reader is pinged every thirty.
    t.ok(performance.now() - since < 15_000, 'at once')
    t.match(await first('GET', STATUS), { ...NOT_ALLOWED, kept: true }, 'over the connection of before')
    t.match(await second('GET', STATUS), { status: 200, kept: true })
    t.equal(await codeOf(health.check('')), PERMISSION_DENIED)
    t.equal(await handshake(node, FIRST), 403)
    t.equal(await handshake(node, SECOND), 101)
    const created = await second('POST', '/api/v1/rules', { action: 'accept' })
    t.equal(created.status, 201)
    await until(
      () => typesOf(staying),
      (types) => types.includes('rule.created'),
    )

    const set = await agent.call('PUT', '/control/v1/config/api_allowed_ips', { value: '10.77.0.0/24' })
    t.match(set.body, { effective: 'now' })
    t.match(await first('GET', STATUS), { status: 200, kept: true }, 'the local value wins, at once')
    t.equal(await codeOf(health.check('')), undefined)
    panel({ api_allowed_ips: '192.0.2.1', api_rate_limit: 999 })
    const limit = () => agent.call('GET', '/control/v1/config/api_rate_limit')
    await until(limit, ({ body }) => body.value === '999')
    t.match(await first('GET', STATUS), { status: 200, kept: true }, 'whatever the panel writes')
    await agent.call('DELETE', '/control/v1/config/api_allowed_ips')
    for (const line of [first, second]) t.match(await line('GET', STATUS), NOT_ALLOWED)
    panel({})
    await until(
      () => first('GET', STATUS),
      ({ status }) => status === 200,
    )
    t.equal(await handshake(node, FIRST), 101, 'without a list everybody is listened to')
  },
)

t.test('rate-05 rate-06 api_rate_limit and api_rate_burst hold at once on all three ports', async (t) => {
  const node = await live(t)
  const [rest, health] = [node.rest(), await node.health()]
  t.match(await rest('GET', STATUS), { headers: { 'ratelimit-limit': '100' } })
  node.panel({ api_rate_burst: 3, api_rate_limit: 1 })
  await until(
    () => rest('GET', STATUS),
    ({ status }) => status === 429,
  )
  t.match(await rest('GET', STATUS), { status: 429, headers: { 'ratelimit-limit': '3' }, kept: true })
  t.equal(await codeOf(health.check('')), RESOURCE_EXHAUSTED)
  t.equal(await handshake(node, FIRST), 429)
  t.equal(await handshake(node, SECOND), 101, 'another address has tokens of its own')
  await node.agent.call('PUT', '/control/v1/config/api_rate_limit', { value: '6000000' })
  t.match(await rest('GET', STATUS), { status: 200, headers: { 'ratelimit-limit': '3' } })
  t.equal(await codeOf(health.check('')), undefined)
  t.equal(await handshake(node, FIRST), 101)
})

t.test(
  'auth-21 auth-22 auth-23 auth-24 auth-27 the lockout keys hold at once, and a block holds on all three ports',
  async (t) => {
    const node = await live(t)
    const [rest, other, health] = [node.rest(FIRST), node.rest(SECOND), await node.health()]
    const reader = await node.reader(FIRST)
    t.equal(await codeOf(health.check('', 'Bearer wrong')), UNAUTHENTICATED)
    t.equal(await handshake(node, FIRST, 'wrong'), 401)
    node.panel({ api_auth_fail_limit: 3, api_auth_fail_window: 600, api_auth_block_seconds: 6 })
    await until(
      () => node.agent.call('GET', '/control/v1/config/api_auth_fail_limit'),
      ({ body }) => body.value === '3',
    )
    t.equal(
      (await rest('GET', STATUS, undefined, 'wrong')).status,
      401,
      'the third of the window, which was begun before',
    )
    t.match(await rest('GET', STATUS), {
      status: 429,
      body: { error: 'too many failed authentication attempts' },
      kept: true,
    })
    t.equal(await codeOf(health.check('')), RESOURCE_EXHAUSTED)
    t.equal(await handshake(node, FIRST), 429)
    t.equal((await other('GET', STATUS)).status, 200)
    await until(
      () => typesOf(reader),
      (types) => types.includes('auth.blocked'),
    )
    const event = reader.frames.find(({ type }) => type === 'auth.blocked')
    t.match(
      event,
      { area: 'core', data: { address: FIRST, failures: 3, transport: 'rest' } },
      'and the stream stays open',
    )
    await until(
      () => rest('GET', STATUS),
      ({ status }) => status === 200,
    )
    t.equal(await codeOf(health.check('')), undefined)
  },
)

t.test('enable-07 enable-16 address, certificate and token hold at the next start, and are said to', async (t) => {
  const node = await live(t)
  const { agent, panel } = node
  const rest = node.rest()
  const before = await node.presented()
  const set = (key: string, value: string) => agent.call('PUT', `/control/v1/config/${key}`, { value })
  t.match((await set('api_bind_address', '127.0.0.1')).body, { effective: 'restart' })
  for (const key of ['cert', 'key']) {
    const file = join(agent.stateDir, `${key}-of-the-operator.pem`)
    copyFileSync(join(agent.stateDir, 'tls', `${key}.pem`), file)
    t.match((await set(`tls_${key}`, file)).body, { effective: 'restart' })
  }
  t.match((await agent.call('POST', '/control/v1/token/generate')).body, { note: /next start/ })
  panel({ api_port: 7079, api_rate_limit: 998 })
  const limit = () => agent.call('GET', '/control/v1/config/api_rate_limit')
  await until(limit, ({ body }) => body.value === '998')
  t.match((await agent.call('GET', '/control/v1/config/api_bind_address')).body, { value: '127.0.0.1', in_force: '' })
  t.match((await agent.call('GET', '/control/v1/config/api_port')).body, { value: '7079', in_force: '7070' })
  t.match(await rest('GET', STATUS), { status: 200 }, 'the former token, address and port')
  t.same(await node.presented(), before)
})
