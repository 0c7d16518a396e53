/**
 * Rules that an earlier release stored and this one would refuse: shown as they are, with what is not enforced, and never
 * in the way of the others.
 */
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { rules as table } from '../tables.ts'
import { type Firewall, firewall } from './area.ts'

type Columns = Partial<typeof table.$inferInsert>

/** An agent that starts on a store in which these rows were before. */
async function upgraded(t: Scope, rows: readonly Columns[]): Promise<Firewall> {
  const stateDir = scratch(t)
  const store = openStore(stateDir)
  store.migrate('firewall', join(import.meta.dirname, '..'))
  for (const [at, row] of rows.entries()) {
    store.write
      .insert(table)
      .values({ action: 'drop', tie: at + 1, ...row })
      .run()
  }
  store.close()
  return firewall(t, { stateDir })
}

const shown = async (area: Firewall, id = 1) => (await area.call('GET', `/api/v1/rules/${id}`)).body
const fields = (rule: Record<string, unknown>) =>
  ((rule.not_enforced ?? []) as { field: string; detail: string }[]).map(({ field }) => field)

t.test('fw-43 D74 a setting that is not enforced is listed', async (t) => {
  const area = await upgraded(t, [
    { action: 'reject', destPort: 80 },
    { stateful: false, destPort: 81 },
    { destPort: 82 },
  ])
  const [reject, stateless, sound] = [await shown(area), await shown(area, 2), await shown(area, 3)]
  t.same(fields(reject), ['action'])
  t.same(fields(stateless), ['stateful'])
  for (const rule of [reject, stateless]) {
    const [{ detail }] = rule.not_enforced as [{ detail: string }]
    t.ok(detail.length > 10, 'the detail is a sentence')
    t.notOk('not_applied' in rule, 'absent when the rule is applied')
  }
  t.match(reject, { action: 'reject', dest_port: 80 }, 'shown as stored')
  t.match(stateless, { stateful: false })
  t.notOk('not_enforced' in sound, 'control: absent where all is enforced')
  t.same((await area.call('GET', '/api/v1/rules')).body.rules, [reject, stateless, sound], 'in the list as well')
  t.same(
    area.planned().map(({ text }) => /dport (\d+) (\w+)$/.exec(text)?.slice(1)),
    [
      ['80', 'drop'],
      ['81', 'drop'],
      ['82', 'drop'],
    ],
  )
})

t.test('fw-44 D74 a rule that is left out says so', async (t) => {
  const area = await upgraded(t, [{ chain: 'input' }, { chain: 'forward', action: 'accept' }, { destPort: 82 }])
  for (const id of [1, 2]) {
    const rule = await shown(area, id)
    t.same(fields(rule), ['chain'])
    t.equal(rule.not_applied, true)
  }
  t.same(
    area.planned().map(({ key }) => key),
    ['firewall/3'],
    'and is not in the kernel',
  )
})

t.test('fw-02 ?chain=prerouting returns every rule, such ones included', async (t) => {
  const area = await upgraded(t, [{ chain: 'input' }, { destPort: 82 }])
  const list = async (chain: string) =>
    ((await area.call('GET', `/api/v1/rules?chain=${chain}`)).body.rules as []).length
  t.equal(await list('prerouting'), 2)
  t.equal(await list('input'), 0, 'D15 any other chain is an empty list')
})

t.test('fw-45 PUT corrects such a rule', async (t) => {
  const area = await upgraded(t, [{ action: 'reject' }, { chain: 'input' }, { stateful: false }])
  for (const id of [1, 2, 3]) {
    const { status, body } = await area.call('PUT', `/api/v1/rules/${id}`, { action: 'drop', dest_port: id })
    t.equal(status, 200)
    const rule = body.rule as Record<string, unknown>
    t.notOk('not_enforced' in rule || 'not_applied' in rule, 'the fields disappear')
    t.same(await shown(area, Number(rule.id)), rule)
  }
  t.equal(area.planned().length, 3)
})

t.test('fw-35 such a rule can be deleted', async (t) => {
  const area = await upgraded(t, [{ action: 'reject' }, { chain: 'input' }])
  for (const id of [1, 2]) t.equal((await area.call('DELETE', `/api/v1/rules/${id}`)).status, 200)
  t.same(area.planned(), [])
})

/** What the fields cannot mean, and which of them is to be named. `leftOut`: applied without it, it would hit other traffic. */
const CASES: { row: Columns; field: string; leftOut?: boolean }[] = [
  { row: { action: 'log' }, field: 'action', leftOut: true },
  { row: { protocol: 'icmp', destPort: 80 }, field: 'dest_port', leftOut: true },
  { row: { protocol: 'icmp', sourcePort: 80 }, field: 'source_port', leftOut: true },
  { row: { protocol: 'icmp', sourceIp: 'fd00::1' }, field: 'protocol', leftOut: true },
  { row: { protocol: 'gre' }, field: 'protocol', leftOut: true },
  { row: { protocol: 'gre', destPort: 80 }, field: 'protocol', leftOut: true },
  { row: { sourceIp: '10.0.0.1', destIp: 'fd00::1' }, field: 'dest_ip', leftOut: true },
  { row: { sourceIp: 'db.example' }, field: 'source_ip', leftOut: true },
  { row: { destIp: '10.0.0.1-10.0.0.9' }, field: 'dest_ip', leftOut: true },
  { row: { mac: 'aa:bb:cc' }, field: 'mac', leftOut: true },
  { row: { interface: 'eth0 eth1' }, field: 'interface', leftOut: true },
  { row: { destPortMax: 90 }, field: 'dest_port_max', leftOut: true },
  { row: { destPort: 80, destPortMax: 70 }, field: 'dest_port_max' },
  { row: { level: 'tenant' }, field: 'level' },
  { row: { priority: -5 }, field: 'priority' },
]
for (const { row, field, leftOut } of CASES) {
  t.test(`fw-43 fw-44 a stored ${JSON.stringify(row)} is named, and the others are in force`, async (t) => {
    const area = await upgraded(t, [row, { destPort: 82 }])
    t.same(area.agent.troubles(), [], 'the start is not hindered')
    const list = await area.call('GET', '/api/v1/rules')
    t.equal(list.status, 200)
    const rule = await shown(area)
    t.ok(fields(rule).includes(field), `${field} is named: ${JSON.stringify(rule.not_enforced)}`)
    const planned = area.planned().map(({ key }) => key)
    t.ok(planned.includes('firewall/2'), 'the sound rule is in force')
    t.equal(planned.includes('firewall/1'), !rule.not_applied, 'what is said to be applied is')
    if (leftOut) t.equal(rule.not_applied, true, 'it is left out')
    const ranks = area.planned().flatMap(({ rank }) => [...rank])
    t.ok(ranks.every(Number.isSafeInteger) && Math.min(...ranks) >= 0, 'ranks are what the data plane can hold')
    const { status } = await area.call('PUT', '/api/v1/rules/1', { action: 'drop' })
    t.equal(status, 200, 'and PUT corrects it')
  })
}

t.test('fw-43 a stored rule with nothing but an action is sound', async (t) => {
  const area = await firewall(t)
  area.agent.store.write.run(sql`INSERT INTO firewall_rules (action, tie) VALUES ('drop', 1)`)
  t.match(await shown(area), { action: 'drop', level: 'global', chain: 'prerouting', priority: 0, stateful: true })
})
