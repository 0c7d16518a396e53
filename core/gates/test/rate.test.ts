/** How often one may call, and what wrong credentials lead to. The clock is injected; nothing waits. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { type BuiltAgent, buildAgent, TOKEN } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { OWN, probe, TENANT_KEY, TENANT_ROUTES, tenantKeys } from '../../../test/rest/areas.ts'
import { type Ask, ask, refusal } from '../../../test/rest/ask.ts'
import { openConfig } from '../../config.ts'
import { CORE_KEYS } from '../../keys.ts'
import { clientAt } from '../client.ts'
import { lockout } from '../lockout.ts'
import { rate } from '../rate.ts'

const STATUS = '/api/v1/status'
const HEALTH = '/api/v1/health'
const LIMITED = [429, 'rate limit exceeded']
const BLOCKED = [429, 'too many failed authentication attempts']

interface Clocked extends BuiltAgent {
  clock: { ms: number }
  get(options?: Ask & { url?: string }): Promise<[number, unknown]>
  /** Presents `count` wrong credentials. */
  fail(count: number, from?: string): Promise<void>
  set(key: string, value: string): Promise<void>
}

async function clocked(scope: Scope, config: Record<string, string> = {}): Promise<Clocked> {
  const clock = { ms: Date.UTC(2030, 0, 1) }
  const area = probe('lodgers', ['/tenant'], TENANT_ROUTES)
  const built = await buildAgent(scope, {
    only: ['node'],
    extraAreas: [area.plugin],
    config,
    now: () => new Date(clock.ms),
  })
  const { agent } = built
  agent.credentials.keys.set('tk', tenantKeys)
  return {
    ...built,
    clock,
    get: async ({ url = STATUS, ...options } = {}) => refusal(await ask(agent, 'GET', url, options)),
    async fail(count, from = '192.0.2.1') {
      for (let i = 0; i < count; i++) await ask(agent, 'GET', STATUS, { token: 'wrong', from })
    },
    async set(key, value) {
      agent.overrides.change((content) => {
        content.config[key] = value
      })
      await agent.config.reload()
    },
  }
}

/** How many calls in a row are let through. */
async function passing(get: Clocked['get'], options: Ask & { url?: string } = {}, most = 500): Promise<number> {
  for (let passed = 0; passed < most; passed++) if ((await get(options))[0] === 429) return passed
  return most
}

t.test('rate-01 rate-02 rate-07 err-07 a burst of exactly 100 passes, the next is refused', async (t) => {
  const { get } = await clocked(t)
  t.equal(await passing(get), 100)
  t.same(await get(), LIMITED)
  t.same(await get({ url: HEALTH }), LIMITED, 'public paths count and are limited too')
  t.same(await get({ token: null }), LIMITED, 'before the credential is looked at')
  t.same(await get({ url: '/api/v1/nope', token: null }), LIMITED, 'unknown paths as well')
})

t.test('rate-03 D37 the bucket is per source address; an IPv6 one stands for its /64', async (t) => {
  const { get } = await clocked(t, { api_rate_burst: '3' })
  t.equal(await passing(get, { from: '192.0.2.1' }), 3)
  t.equal(await passing(get, { from: '::ffff:192.0.2.1' }), 0, 'mapped is the same address')
  t.equal(await passing(get, { from: '192.0.2.2' }), 3)
  t.equal(await passing(get, { from: '2001:db8:0:1::1' }), 3)
  t.equal(await passing(get, { from: '2001:db8:0:1:ffff::9' }), 0, 'the same /64')
  t.equal(await passing(get, { from: '2001:db8:0:2::1' }), 3, 'another /64')
})

t.test('rate-01 rate-04 tokens come back at 1000 a minute, never beyond the burst', async (t) => {
  const { get, clock } = await clocked(t)
  t.equal(await passing(get), 100)
  clock.ms += 59
  t.same(await get(), LIMITED, 'a token takes 60 ms')
  clock.ms += 1
  t.same(await get(), [200, undefined])
  t.same(await get(), LIMITED)
  clock.ms += 600
  t.equal(await passing(get), 10)
  clock.ms += 3_600_000
  t.equal(await passing(get), 100, 'an hour of silence saves up one burst')
  clock.ms -= 3_600_000
  t.same(await get(), LIMITED, 'a clock set back gives nothing')
  clock.ms += 60
  t.same(await get(), [200, undefined], 'and takes nothing for longer than it must')
})

t.test('rate-04 D37 refused calls take no token', async (t) => {
  const { get, clock } = await clocked(t)
  await passing(get)
  for (let i = 0; i < 300; i++) t.equal((await get())[0], 429)
  clock.ms += 60
  t.same(await get(), [200, undefined])
})

t.test('rate-05 rate-06 api_rate_limit and api_rate_burst take effect at once', async (t) => {
  const { get, clock, set } = await clocked(t, { api_rate_limit: '60', api_rate_burst: '5' })
  t.equal(await passing(get), 5)
  clock.ms += 1000
  t.equal(await passing(get), 1)
  await set('api_rate_limit', '600')
  clock.ms += 200
  t.equal(await passing(get), 2)
  await set('api_rate_burst', '7')
  clock.ms += 60_000
  t.equal(await passing(get), 7)
  await set('api_rate_burst', '2')
  clock.ms += 60_000
  t.equal(await passing(get), 2)
})

t.test('rate-08 D18 429 says when to come back, every answer what is left', async (t) => {
  const { agent, clock } = await clocked(t, { api_rate_limit: '60', api_rate_burst: '2' })
  const first = await ask(agent, 'GET', STATUS)
  t.match(first.headers, { 'ratelimit-limit': '2', 'ratelimit-remaining': '1', 'ratelimit-reset': '1' })
  t.equal(first.headers['ratelimit-policy'], '"address";q=60;w=60;burst=2', 'and what the limit is')
  await ask(agent, 'GET', STATUS)
  const refused = await ask(agent, 'GET', STATUS)
  t.equal(refused.status, 429)
  const wait = Number(refused.headers['retry-after'])
  t.equal(wait, 1)
  t.match(refused.headers, { 'ratelimit-remaining': '0', 'ratelimit-reset': '2' })
  clock.ms += wait * 1000
  t.equal((await ask(agent, 'GET', STATUS)).status, 200, 'whoever waits that long is served')
})

t.test('auth-21 auth-22 auth-23 auth-25 err-07 ten wrong credentials block the address, and only it', async (t) => {
  const { agent, get, fail } = await clocked(t)
  await fail(9)
  t.same(await get({ from: '192.0.2.1' }), [200, undefined], 'nine do not')
  await fail(1)
  t.same(await get({ from: '192.0.2.1' }), BLOCKED, 'the right credential does not help')
  t.same(await get({ from: '192.0.2.1', url: HEALTH }), BLOCKED, 'nor does a public path')
  t.same(await get({ from: '::ffff:192.0.2.1' }), BLOCKED)
  t.same(await get({ from: '192.0.2.2' }), [200, undefined])
  const answer = await ask(agent, 'GET', STATUS, { from: '192.0.2.1' })
  t.equal(answer.headers['retry-after'], '900')
  t.match(agent.gates.lockout.blocks(), [{ address: '192.0.2.1', until: '2030-01-01T00:15:00.000Z' }])
})

t.test('auth-24 D36 the block ends after 900 s, and only then', async (t) => {
  const { get, fail, clock, agent } = await clocked(t)
  await fail(10)
  clock.ms += 899_999
  t.same(await get({ from: '192.0.2.1' }), BLOCKED)
  clock.ms += 1
  t.same(await get({ from: '192.0.2.1' }), [200, undefined])
  t.same(agent.gates.lockout.blocks(), [])
  await fail(9)
  t.same(await get({ from: '192.0.2.1' }), [200, undefined], 'the count began anew')
})

t.test('auth-21 D36 only presented credentials count, wrong in whatever way', async (t) => {
  const { get, agent } = await clocked(t)
  const from = '192.0.2.1'
  for (let i = 0; i < 30; i++) await ask(agent, 'GET', STATUS, { token: null, from })
  for (let i = 0; i < 5; i++) await ask(agent, 'GET', HEALTH, { token: 'wrong', from })
  t.same(await get({ from }), [200, undefined])
  const ways = [
    'Basic eA==',
    'Bearer ',
    'x',
    `Bearer ${'a'.repeat(600)}`,
    'Bearer ok_0123456789ab_x',
    `Bearer ${TOKEN}x`,
  ]
  for (const authorization of ways) await ask(agent, 'GET', STATUS, { token: null, headers: { authorization }, from })
  for (const url of ['/api/v1/nope', '/api/v1/%zz', '/', '/control/v1/token']) {
    await ask(agent, 'GET', url, { token: 'wrong', from })
  }
  t.same(await get({ from }), BLOCKED, `${ways.length} ways on one path and 4 other paths make 10`)
})

t.test('auth-26 D36 success does not clear the count; failures older than the window do not count', async (t) => {
  const { get, fail, clock } = await clocked(t)
  const from = '192.0.2.1'
  await fail(9)
  t.equal((await get({ from, token: TENANT_KEY, url: `/api/v1/tenant/${OWN}` }))[0], 200)
  t.equal((await get({ from }))[0], 200)
  await fail(1)
  t.same(await get({ from }), BLOCKED)

  const other = '192.0.2.2'
  await fail(9, other)
  clock.ms += 300_000
  await fail(9, other)
  t.same(await get({ from: other }), [200, undefined], 'the window slides')
  await fail(1, other)
  t.same(await get({ from: other }), BLOCKED)
})

t.test('D36 an IPv6 address is counted and blocked by its /64', async (t) => {
  const { get, agent } = await clocked(t)
  for (let i = 1; i <= 10; i++) await ask(agent, 'GET', STATUS, { token: 'wrong', from: `2001:db8:0:1::${i}` })
  t.same(await get({ from: '2001:db8:0:1:abcd::1' }), BLOCKED)
  t.same(await get({ from: '2001:db8:0:2::1' }), [200, undefined])
})

t.test('D36 the limits are configurable, and a block can be lifted as it is listed', async (t) => {
  const { get, fail, agent, clock } = await clocked(t, {
    api_auth_fail_limit: '2',
    api_auth_fail_window: '10',
    api_auth_block_seconds: '30',
  })
  await fail(1)
  clock.ms += 10_000
  await fail(1)
  t.equal((await get({ from: '192.0.2.1' }))[0], 200)
  await fail(1)
  t.same(await get({ from: '192.0.2.1' }), BLOCKED)
  await fail(2, '2001:db8:0:1::1')
  for (const { address } of agent.gates.lockout.blocks()) t.ok(agent.gates.lockout.unblock(address), address)
  t.equal((await get({ from: '192.0.2.1' }))[0], 200)
  t.equal((await get({ from: '2001:db8:0:1::2' }))[0], 200)
  t.notOk(agent.gates.lockout.unblock('192.0.2.1'), 'there is none any more')
  await fail(2)
  clock.ms += 30_000
  t.equal((await get({ from: '192.0.2.1' }))[0], 200)
})

t.test('D38 forwarding headers move neither the bucket nor the block', async (t) => {
  const { get } = await clocked(t, { api_rate_burst: '3', api_auth_fail_limit: '2' })
  for (let i = 0; i < 2; i++) await get({ token: 'wrong', headers: { 'x-forwarded-for': `198.51.100.${i}` } })
  t.same(await get({ headers: { 'x-forwarded-for': '198.51.100.9', 'x-real-ip': '198.51.100.9' } }), BLOCKED)
  t.equal(await passing(get, { from: '198.51.100.0' }), 3, 'the named address was charged nothing')
})

t.test('D36 D37 200 000 addresses are counted in bounded memory and time', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const heap = () => {
    collect()
    return process.memoryUsage().heapUsed / 2 ** 20
  }
  const addresses = Array.from(
    { length: 200_000 },
    (_, i) => clientAt(`2001:db8:${(i >> 8).toString(16)}:${i & 255}::1`).key,
  )
  const configWith = (values: Record<string, string>) =>
    openConfig(CORE_KEYS, { file: '/nonexistent', overrides: () => values, environment: {} })
  let now = 0
  const cases: [string, (key: string) => void][] = []
  const failing = lockout(configWith({}), () => now)
  cases.push(['failures', (key) => failing.fail(key)])
  const blocking = lockout(configWith({ api_auth_fail_limit: '1' }), () => now)
  cases.push(['blocks', (key) => blocking.fail(key)])
  const rated = rate(configWith({}), () => now)
  cases.push(['buckets', (key) => void rated.take(key)])
  for (const [what, touch] of cases) {
    const before = heap()
    for (const key of addresses) {
      now += 0.01
      touch(key)
    }
    t.ok(heap() - before < 64, `${what}: ${Math.round(heap() - before)} MiB`)
  }
  t.ok(blocking.blocks().length <= 100_000, `${blocking.blocks().length} blocks are kept`)
})
