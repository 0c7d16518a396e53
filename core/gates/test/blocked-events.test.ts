/** What is told of blocked addresses, and that nobody can drown the stream with it. */
import { setTimeout as wait } from 'node:timers/promises'
import pino from 'pino'
import t from 'tap'
import { Value } from 'typebox/value'
import { type BuiltAgent, TOKEN } from '../../../test/build.ts'
import { ask, openAgent } from '../../../test/rest/ask.ts'
import { coreEvents } from '../../state/core-events.ts'
import { controlOf } from '../../test/control.ts'
import { openBlockNews } from '../block-news.ts'

const STATUS = '/api/v1/status'

/** Committed events, less what is the same in all; each must fit what the core declares. */
async function told({ agent }: BuiltAgent) {
  // Events are written behind whatever runs.
  await agent.pipeline.exclusively(async () => {})
  return agent.outbox.after(0, 1000).map(({ type, area, actor, data }) => {
    const schema = coreEvents[type]
    if (area === 'core' && (schema === undefined || !Value.Check(schema, data)))
      throw new Error(`${type} is not declared so`)
    return { type, by: `${actor.kind} ${actor.label}`, data: data as Record<string, unknown> }
  })
}

async function clocked(t: Parameters<typeof openAgent>[0], config: Record<string, string> = {}) {
  const clock = { ms: Date.UTC(2030, 0, 1) }
  const built = await openAgent(t, { config: { api_auth_fail_limit: '3', ...config }, now: () => new Date(clock.ms) })
  const fail = async (from: string, count: number) => {
    for (let n = 0; n < count; n++) await ask(built.agent, 'GET', STATUS, { token: `wrong-${TOKEN}`, from })
  }
  return { ...built, clock, fail }
}

t.test('auth-21 auth-24 D112 a block is one event, however often the address comes while it lasts', async (t) => {
  const built = await clocked(t)
  const { fail, clock, logged } = built
  await fail('192.0.2.1', 2)
  t.same(await told(built), [])
  await fail('192.0.2.1', 50)
  const first = { address: '192.0.2.1', until: '2030-01-01T00:15:00.000Z', failures: 3, transport: 'rest' }
  t.same(await told(built), [{ type: 'auth.blocked', by: 'system lockout', data: first }])
  t.match(
    logged.filter(({ address }) => address !== undefined),
    [{ ...first, level: 40 }],
    'and one line of the log',
  )
  clock.ms += 900_000
  await fail('192.0.2.1', 3)
  t.match(await told(built), [{}, { type: 'auth.blocked', data: { until: '2030-01-01T00:30:00.000Z' } }])
})

t.test('auth-21 auth-27 D36 the event names the port, and the /64 of an IPv6 address', async (t) => {
  const built = await clocked(t)
  const { fail, agent } = built
  await fail('2001:db8::1', 2)
  await fail('2001:db8::ffff', 1)
  for (let n = 0; n < 3; n++) agent.gates.lockout.fail('198.51.100.1', 'grpc')
  for (let n = 0; n < 3; n++) agent.gates.lockout.fail('198.51.100.2', 'events')
  t.match(
    (await told(built)).map(({ data }) => data),
    [
      { address: '2001:db8:0:0::/64', transport: 'rest' },
      { address: '198.51.100.1', transport: 'grpc' },
      { address: '198.51.100.2', transport: 'events' },
    ],
  )
})

t.test('auth-21 auth-28 a flood of blocked addresses is a handful of events, and changes go on', async (t) => {
  const built = await clocked(t)
  const { agent, call } = built
  for (let n = 0; n < 30_000; n++) agent.gates.lockout.fail(`10.0.${n % 100}.${Math.floor(n / 100) % 100}`)
  t.equal(agent.gates.lockout.blocks().length, 10_000)
  t.equal((await call('POST', '/api/v1/rules', { action: 'drop' })).status, 201)
  const events = await told(built)
  t.same(
    events.map(({ type }) => type),
    [...Array(10).fill('auth.blocked'), 'rule.created'],
  )
  t.notOk(JSON.stringify(events).includes(TOKEN))
})

t.test('auth-21 what a flood leaves untold is counted in one event, and then single ones are told again', async (t) => {
  const sent: unknown[] = []
  const announce = async (_origin: unknown, drafts: (tx: never) => { data: unknown }[]) => {
    sent.push(...drafts(undefined as never).map(({ data }) => data))
    return sent.length
  }
  const news = openBlockNews(announce, pino({ level: 'silent' }), 50)
  t.teardown(news.close)
  const block = (n: number) => ({ address: `10.0.0.${n}`, until: '', failures: 1, transport: 'rest' as const })
  for (let n = 0; n < 25; n++) news.tell(block(n))
  t.equal(sent.length, 10)
  while (sent.length < 11) await wait(5)
  t.same(sent.at(-1), { more: 15 })
  news.tell(block(99))
  t.match(sent.at(-1), { address: '10.0.0.99' })
})

t.test('an event that cannot be stored is logged, and the block holds', async (t) => {
  const built = await clocked(t)
  const { agent, fail, logged } = built
  const { begin } = agent.store
  agent.store.begin = () => {
    throw new Error('disk I/O error')
  }
  await fail('192.0.2.9', 3)
  t.same(await told(built), [])
  agent.store.begin = begin
  t.match(logged.at(-1), { level: 50, err: { message: 'disk I/O error' } })
  t.equal((await ask(agent, 'GET', STATUS, { from: '192.0.2.9' })).status, 429)
})

t.test('auth-21 auth-28 D112 lifting a block, minting and revoking a key are events without a secret', async (t) => {
  const built = await clocked(t)
  const { agent, fail } = built
  const control = await controlOf(t, agent)
  await fail('192.0.2.1', 3)
  const lifted = await control('DELETE', '/control/v1/blocks/192.0.2.1')
  t.match(lifted, { status: 200, body: { status: 'removed', address: '192.0.2.1' }, headers: { 'x-event-id': '2' } })
  const minted = await control('POST', '/control/v1/apikeys', { label: 'backup' })
  const { key, id } = minted.body as { key: string; id: string }
  await control('DELETE', `/control/v1/apikeys/${id}`)
  t.match((await told(built)).slice(1), [
    { type: 'auth.updated', by: 'cli root', data: { address: '192.0.2.1', blocked: false } },
    { type: 'auth.created', by: 'cli root', data: { id, label: 'backup', created_at: String } },
    { type: 'auth.deleted', by: 'cli root', data: { id } },
  ])
  const secret = key.split('_').slice(2).join('_')
  t.notOk(JSON.stringify(agent.outbox.after(0, 100)).includes(secret))
})
