/** `agent.state_changed`: that the agent starts, stops, is in trouble and out of it again. */
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { Value } from 'typebox/value'
import { UncertainOutcome } from '../../dataplane/plane.ts'
import { type BuiltAgent, buildArea } from '../../test/build.ts'
import { followState } from '../agent-state.ts'
import { coreEvents } from '../state/core-events.ts'

const STATUS = '/api/v1/status'

/** `from to troubles` of every change that was told. */
function changes({ agent }: BuiltAgent): unknown[] {
  const events = agent.outbox.after(0, 1000).filter(({ type }) => type === 'agent.state_changed')
  return events.map(({ data, resource, area, actor }) => {
    const schema = coreEvents['agent.state_changed']
    if (schema === undefined || !Value.Check(schema, data)) throw new Error(JSON.stringify(data))
    if (resource !== STATUS || area !== 'core' || actor.kind !== 'system') throw new Error(resource)
    const { from, to, troubles } = data as { from: string; to: string; troubles: string[] }
    return [from, to, ...troubles]
  })
}

async function until(holds: () => unknown): Promise<void> {
  while (!holds()) await wait(5)
}

t.test(
  'D112 the agent says that it runs, that it is in trouble, that it is out of it, and that it stops',
  async (t) => {
    const built = await buildArea(t, 'firewall')
    const { agent, plane, call } = built
    const stop = await followState(agent, { tickMs: 5 })
    t.same(changes(built), [['starting', 'running']])
    const observe = plane.observe
    plane.observe = () => Promise.reject(new Error('no answer'))
    plane.refuse = new UncertainOutcome('helper ended')
    t.equal((await call('POST', '/api/v1/rules', { action: 'drop' })).status, 500)
    await until(() => changes(built).length > 1)
    t.match((await call('GET', STATUS)).body, { status: 'degraded' })
    plane.observe = observe
    t.equal((await call('POST', '/api/v1/rules', { action: 'drop' })).status, 201)
    await until(() => changes(built).length > 2)
    t.match((await call('GET', STATUS)).body, { status: 'running' })
    await stop()
    t.match(changes(built), [
      ['starting', 'running'],
      ['running', 'degraded', /^the kernel does not hold what is stored: no answer/],
      ['degraded', 'running'],
      ['running', 'stopping'],
    ])
  },
)

t.test('what should be put right is a trouble of the node, too', async (t) => {
  const built = await buildArea(t, 'node')
  const { agent, call } = built
  agent.cautions.set('config', { what: 'panel.json must hold one JSON object', remedy: 'correct it' })
  t.match((await call('GET', STATUS)).body, { status: 'degraded' })
  const stop = await followState(agent, { tickMs: 5 })
  t.same(changes(built), [['starting', 'degraded', 'panel.json must hold one JSON object']])
  await stop()
})

t.test('a store that cannot be written is a trouble until it can, and the agent finds out by itself', async (t) => {
  const built = await buildArea(t, 'firewall')
  const { agent, call, logged } = built
  const stop = await followState(agent, { tickMs: 5 })
  const pragma = (text: string) => agent.store.write.run(sql.raw(`PRAGMA ${text}`))
  pragma('query_only = ON')
  t.equal((await call('POST', '/api/v1/rules', { action: 'drop' })).status, 500)
  t.match(agent.store.problem(), /^the store cannot be written: attempt to write a readonly database$/)
  t.match((await call('GET', STATUS)).body, { status: 'degraded' })
  t.same([agent.ailing('storage') === undefined, agent.ailing('firewall')], [false, undefined])
  await until(() => logged.some(({ to }) => to === 'degraded'))
  pragma('query_only = OFF')
  await until(() => agent.store.problem() === undefined)
  t.equal((await call('POST', '/api/v1/rules', { action: 'drop' })).status, 201)
  await stop()
  t.same(
    changes(built),
    [
      ['starting', 'running'],
      ['running', 'stopping'],
    ],
    'what could not be stored was logged',
  )
})
