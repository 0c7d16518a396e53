/** How many rules there may be, and what the answer says when there are. */
import { eq } from 'drizzle-orm'
import t from 'tap'
import { settings } from '../tables.ts'
import { firewall } from './area.ts'

t.test('D20 the number of rules is limited', async (t) => {
  const { call, create, control, rules } = await firewall(t, { config: { max_rules: '3' } })
  for (let at = 0; at < 3; at++) await create({ action: 'drop' })
  const { status, body } = await call('POST', '/api/v1/rules', { action: 'drop' })
  t.same([status, body], [409, { error: 'limit reached: rules (3)' }])
  t.equal((await call('PUT', '/api/v1/rules/1', { action: 'accept' })).status, 200, 'a replacement fits')
  t.equal((await call('DELETE', '/api/v1/rules/2')).status, 200)
  const batch = await call('POST', '/api/v1/rules/batch', { rules: [{ action: 'drop' }, { action: 'drop' }] })
  t.match(batch.body, {
    status: 'partial',
    results: [{ status: 'created' }, { status: 'failed', code: 409, error: 'limit reached: rules (3)' }],
  })
  t.equal((await rules()).length, 3)
  await control('PUT', '/control/v1/config/max_rules', { value: '4' })
  await create({ action: 'drop' })
  t.equal((await call('POST', '/api/v1/rules', { action: 'drop' })).status, 409, 'the new limit holds at once')
})

t.test('D20 the limit is 131,072 unless configured, and 16,384 where nft compares rule by rule', async (t) => {
  const most = async (lane: 'classifier' | 'nft', value: string) => {
    const { agent, call } = await firewall(t, { lane })
    t.equal(agent.config.int('max_rules'), 131_072)
    agent.store.write.update(settings).set({ value }).where(eq(settings.name, 'rule_count')).run()
    return call('POST', '/api/v1/rules', { action: 'drop' })
  }
  t.equal((await most('classifier', '131071')).status, 201)
  t.match(await most('classifier', '131072'), { status: 409, body: { error: 'limit reached: rules (131072)' } })
  t.equal((await most('nft', '16383')).status, 201)
  t.match(await most('nft', '16384'), {
    status: 409,
    body: { error: /^limit reached: rules \(16384\): nft compares rule by rule.*stratumctl service status$/ },
  })
})
