/** What `GET /metrics` shows of the firewall. */
import t from 'tap'
import { buildArea } from '../../../test/build.ts'
import { readExposition } from '../../../test/exposition.ts'
import { rules } from '../tables.ts'

type Call = Awaited<ReturnType<typeof buildArea>>['call']
const read = async (call: Call) => readExposition((await call('GET', '/api/v1/metrics')).text)

async function add(call: Call, body: object): Promise<number> {
  const { status, body: answer, text } = await call('POST', '/api/v1/rules', body)
  if (status !== 201) throw new Error(text)
  return (answer.rule as { id: number }).id
}

t.test('rules by action and level, their limit, the default action', async (t) => {
  const { call } = await buildArea(t, 'firewall', { config: { max_rules: '500' } })
  let metrics = await read(call)
  t.same(metrics.series('stratum_firewall_rules'), [])
  t.equal(metrics.value('stratum_firewall_default_action', { action: 'allow' }), 1)
  t.equal(metrics.value('stratum_firewall_default_action', { action: 'deny' }), 0)
  await add(call, { action: 'accept' })
  const gone = await add(call, { action: 'accept' })
  await add(call, { action: 'drop' })
  await add(call, { action: 'drop', level: 'mac', mac: '02:00:00:00:00:01' })
  await call('DELETE', `/api/v1/rules/${gone}`)
  await call('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  metrics = await read(call)
  const counted = metrics
    .series('stratum_firewall_rules')
    .map(({ labels, value }) => [labels.action, labels.level, value])
  t.same(counted, [
    ['accept', 'global', 1],
    ['drop', 'global', 1],
    ['drop', 'mac', 1],
  ])
  t.equal(metrics.value('stratum_firewall_rules_limit'), 500)
  const unlimited = await buildArea(t, 'firewall')
  t.equal((await read(unlimited.call)).value('stratum_firewall_rules_limit'), 16_384, 'without the classifier')
  t.equal(metrics.value('stratum_firewall_default_action', { action: 'deny' }), 1)
})

t.test('rules with a schedule, and drops whose connections are not ended yet', async (t) => {
  const { agent, call } = await buildArea(t, 'firewall')
  // The plane in memory knows no connections, so what is pending stays so.
  const id = await add(call, { action: 'drop' })
  await add(call, { action: 'accept' })
  t.equal((await read(call)).value('stratum_firewall_pending_evictions'), 1)
  t.equal((await read(call)).value('stratum_firewall_scheduled_rules'), 0)
  agent.store.write.update(rules).set({ scheduleFrom: '22:00', scheduleTo: '06:00', scheduleDaily: true }).run()
  t.equal((await read(call)).value('stratum_firewall_scheduled_rules'), 2)
  await call('DELETE', `/api/v1/rules/${id}`)
  t.equal((await read(call)).value('stratum_firewall_pending_evictions'), 0)
  t.equal((await read(call)).value('stratum_firewall_scheduled_rules'), 1)
})

t.test('rules of earlier releases: not enforced, and with text that makes no series of its own', async (t) => {
  const { agent, call } = await buildArea(t, 'firewall')
  await add(call, { action: 'accept' })
  const old = [
    { action: 'reject', tie: 0 },
    { action: 'drop', level: 'zone-1', tie: 0 },
    { action: 'drop', level: 'zone-2', tie: 0 },
    { action: 'log', tie: 0 },
    { action: 'drop', sourceIp: '10.0.0.0.0', tie: 0 },
  ]
  agent.store.write.insert(rules).values(old).run()
  let metrics = await read(call)
  t.equal(metrics.value('stratum_firewall_not_enforced_rules'), 5)
  t.equal(metrics.value('stratum_firewall_rules', { action: 'drop', level: 'other' }), 2)
  t.equal(metrics.value('stratum_firewall_rules', { action: 'other', level: 'global' }), 1)
  t.equal(metrics.value('stratum_firewall_rules', { action: 'reject', level: 'global' }), 1)
  t.equal((await call('PUT', '/api/v1/rules/2', { action: 'drop' })).status, 200)
  t.equal((await call('DELETE', '/api/v1/rules/3')).status, 200)
  metrics = await read(call)
  t.equal(metrics.value('stratum_firewall_not_enforced_rules'), 3, 'corrected or deleted ones do not count')
})
