/** The life of a rule over REST, over a plane in memory. What is accepted and refused: routes-input.test.ts. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import type { Rule } from '../schemas.ts'
import { firewall } from './area.ts'

/** An accept, because a drop lets the area change something of its own soon after: it ends connections. */
const FULL = {
  action: 'accept',
  priority: 7,
  protocol: 'udp',
  source_ip: '10.0.0.0/8',
  dest_ip: '192.0.2.1',
  source_port: 53,
  dest_port: 1000,
  dest_port_max: 2000,
  interface: 'eth0',
  mac: '02:00:00:00:00:01',
  level: 'flow',
  comment: 'why, and ünïcode',
  chain: 'prerouting',
  stateful: true,
}

t.test('fw-01 fw-02 D15 lists', async (t) => {
  const { call, create } = await firewall(t)
  t.same((await call('GET', '/api/v1/rules')).body, { rules: [] }, 'an empty list is []')
  const rules = [await create({ action: 'drop' }), await create(FULL)]
  const { status, body } = await call('GET', '/api/v1/rules')
  t.equal(status, 200)
  t.same(body, { rules })
  t.same((await call('GET', '/api/v1/rules?chain=prerouting')).body, { rules }, 'prerouting is every rule')
  for (const chain of ['input', 'PREROUTING', 'x'.repeat(20)]) {
    const other = await call('GET', `/api/v1/rules?chain=${chain}`)
    t.same([other.status, other.body], [200, { rules: [] }], `?chain=${chain} is an empty list`)
  }
  t.equal((await call('GET', '/api/v1/rules?chain=a&chain=b')).status, 400, 'two chains are malformed')
})

t.test('fw-03 fw-25 fw-26 fw-27 a created rule is returned, empty fields left out', async (t) => {
  const { call, events, planned } = await firewall(t)
  const small = await call('POST', '/api/v1/rules', { action: 'accept' })
  t.equal(small.status, 201)
  const always = { chain: 'prerouting', priority: 0, action: 'accept', stateful: true }
  t.same(small.body, { status: 'created', rule: { id: 1, ...always, level: 'global' } })
  const empty = {
    ...{ protocol: '', source_ip: '', dest_ip: '', interface: '', mac: '', comment: '' },
    ...{ source_port: 0, dest_port: 0, dest_port_max: 0, priority: 0 },
  }
  const zero = await call('POST', '/api/v1/rules', { action: 'accept', ...empty })
  t.same(zero.body, { status: 'created', rule: { id: 2, ...always, level: 'global' } }, 'empty and zero are absent')
  const full = await call('POST', '/api/v1/rules', FULL)
  t.same(full.body, { status: 'created', rule: { id: 3, ...FULL } })
  t.same(events(), ['rule.created', 'rule.created', 'rule.created'], 'one event each')
  t.equal(planned().length, 3)
})

t.test('D110 D112 the event tells the rule as REST returns it, and its number is in the answer', async (t) => {
  const { call, agent } = await firewall(t)
  const { body, headers } = await call('POST', '/api/v1/rules', FULL)
  const [event] = agent.outbox.after(Number(headers['x-event-id']) - 1, 1)
  t.match(event, { type: 'rule.created', area: 'firewall', resource: '/api/v1/rules/1', data: body.rule as object })
})

t.test('fw-28 D2 D13 one rule', async (t) => {
  const { call, control, create } = await firewall(t)
  const rule = await create(FULL)
  for (const path of ['/api/v1/rules/1', '/api/v1/rules/1/', '/api/v1/rules/%31']) {
    const { status, body } = await call('GET', path)
    t.same([status, body], [200, rule], path)
  }
  t.equal((await control('HEAD', '/api/v1/rules/1')).status, 200, 'HEAD is GET')
  for (const id of ['2', '0', '-1', '01', '1.0', '1e0', 'x', '99999999999999999999', '%2e%2e', 'batch']) {
    const { status, body } = await call('GET', `/api/v1/rules/${id}`)
    t.equal(status, 404, id)
    t.type(body.error, 'string')
  }
})

t.test('D13 unsupported methods and other spellings are 404', async (t) => {
  const { call, create } = await firewall(t)
  await create(FULL)
  for (const [method, path] of [
    ['PATCH', '/api/v1/rules/1'],
    ['POST', '/api/v1/rules/1'],
    ['PUT', '/api/v1/rules'],
    ['DELETE', '/api/v1/rules'],
    ['POST', '/api/v1/rules/default'],
    ['GET', '/api/v1/Rules'],
    ['GET', '/api/v1/rules/1/more'],
  ]) {
    t.equal(
      (await call(method ?? '', path ?? '', method === 'GET' ? undefined : FULL)).status,
      404,
      `${method} ${path}`,
    )
  }
})

t.test('fw-29 PUT gives a new id, and the old one is gone', async (t) => {
  const { call, create, events, planned, rules } = await firewall(t)
  await create(FULL)
  const other = await create({ action: 'drop' })
  events()
  const { status, body } = await call('PUT', '/api/v1/rules/1', { action: 'accept', dest_port: 80 })
  t.equal(status, 200)
  const rule = {
    id: 3,
    chain: 'prerouting',
    priority: 0,
    action: 'accept',
    stateful: true,
    dest_port: 80,
    level: 'global',
  }
  t.same(body, { status: 'updated', rule }, 'the body is the whole rule: nothing of the old one stays')
  t.equal((await call('GET', '/api/v1/rules/1')).status, 404)
  t.same((await call('GET', '/api/v1/rules/3')).body, rule)
  t.same(await rules(), [rule, other], 'listed in the order in which packets meet them')
  t.same(events(), ['rule.updated'])
  t.same(
    planned().map(({ key }) => key),
    ['firewall/3', 'firewall/2'],
    'D66 it keeps the place of the old one among equals',
  )
  await call('PUT', '/api/v1/rules/3', { action: 'accept' })
  t.equal(planned()[0]?.key, 'firewall/4', 'and so does a replacement of the replacement')
})

t.test('fw-30 fw-31 fw-32 err-04 D69 a PUT that is refused leaves the old rule as it was', async (t) => {
  const { call, create, events, plane, planned, rules } = await firewall(t)
  const rule = await create(FULL)
  const before = planned()
  events()
  const unchanged = async (what: string) => {
    t.same(await rules(), [rule], `${what}: stored as before`)
    t.same(planned(), before, `${what}: in force as before`)
    t.same(events(), [], `${what}: no event`)
  }
  for (const body of [{}, { action: 'reject' }, { action: 'drop', mac: 'x' }, { action: 'drop', colour: 'red' }]) {
    t.equal((await call('PUT', '/api/v1/rules/1', body)).status, 400, JSON.stringify(body))
    await unchanged('400')
  }
  plane.refuse = new KernelRefusal('No buffer space available')
  const refused = await call('PUT', '/api/v1/rules/1', { action: 'accept' })
  t.equal(refused.status, 409)
  t.match(refused.body.error, /No buffer space available/)
  await unchanged('409')
  t.equal((await call('PUT', '/api/v1/rules/9', { action: 'accept' })).status, 404)
  t.equal((await call('PUT', '/api/v1/rules/x', { action: 'accept' })).status, 404)
  await unchanged('404')
  t.equal((await call('PUT', '/api/v1/rules/1', { action: 'accept' })).status, 200, 'control: it can be replaced')
})

t.test('D1 fw-32 an invalid body is 400 before an unknown id is 404', async (t) => {
  const { call } = await firewall(t)
  for (const body of [
    { action: 'reject' },
    { action: 'drop', dest_ip: 'nowhere' },
    { action: 'drop', dest_port_max: 5 },
  ]) {
    t.equal((await call('PUT', '/api/v1/rules/9', body)).status, 400, JSON.stringify(body))
  }
  t.equal((await call('PUT', '/api/v1/rules/9', { action: 'drop' })).status, 404, 'control')
})

t.test('D69 err-10 err-11 what the kernel refuses is 409, what breaks is 500, and nothing changed', async (t) => {
  const { call, create, events, plane, planned, rules } = await firewall(t)
  const stored = [await create(FULL)]
  const before = planned()
  events()
  const changes: [string, string, unknown?][] = [
    ['POST', '/api/v1/rules', { action: 'drop' }],
    ['PUT', '/api/v1/rules/1', { action: 'drop' }],
    ['DELETE', '/api/v1/rules/1'],
    ['PUT', '/api/v1/rules/default', { default_action: 'deny' }],
    ['POST', '/api/v1/rules/batch', { rules: [{ action: 'drop' }] }],
  ]
  for (const [method, path, body] of changes) {
    plane.refuse = new KernelRefusal('Device or resource busy')
    t.equal((await call(method, path, body)).status, 409, `${method} ${path}`)
    plane.refuse = new Error('SELECT secret FROM stack')
    const broken = await call(method, path, body)
    t.same([broken.status, broken.body], [500, { error: 'internal error' }], `${method} ${path}`)
  }
  t.same(await rules(), stored)
  t.same(planned(), before)
  t.same((await call('GET', '/api/v1/rules/default')).body, { default_action: 'allow' })
  t.same(events(), [])
})

t.test('fw-35 D7 DELETE, and no id is used twice', async (t) => {
  const { call, create, events, planned } = await firewall(t)
  await create(FULL)
  await create(FULL)
  events()
  const { status, body } = await call('DELETE', '/api/v1/rules/2')
  t.same([status, body], [200, { status: 'deleted', id: 2 }])
  t.same(events(), ['rule.deleted'])
  t.same(
    planned().map(({ key }) => key),
    ['firewall/1'],
  )
  for (const id of ['2', '9', 'default', 'batch', '0']) {
    t.equal((await call('DELETE', `/api/v1/rules/${id}`)).status, 404, id)
  }
  t.equal((await create(FULL)).id, 3)
})

t.test('fw-36 fw-37 fw-49 the default action', async (t) => {
  const { call, create, events, plane } = await firewall(t)
  await create(FULL)
  events()
  const inForce = () => plane.entries.get('firewall/firewall_default')
  t.same((await call('GET', '/api/v1/rules/default')).body, { default_action: 'allow' })
  t.equal(inForce(), undefined)
  for (const default_action of ['deny', 'deny', 'allow', 'deny', 'allow']) {
    const { status, body } = await call('PUT', '/api/v1/rules/default', { default_action })
    t.same([status, body], [200, { status: 'updated', default_action }])
    t.same((await call('GET', '/api/v1/rules/default')).body, { default_action })
    t.equal(inForce() !== undefined, default_action === 'deny')
    t.same(events(), ['default_action.updated'])
  }
  for (const body of [{}, { default_action: 'drop' }, { default_action: 'Deny' }, { default_action: '' }]) {
    t.equal((await call('PUT', '/api/v1/rules/default', body)).status, 400, JSON.stringify(body))
  }
  t.equal((await call('PUT', '/api/v1/rules/default', { default_action: 'deny', also: 1 })).status, 400)
  t.same((await call('GET', '/api/v1/rules/default')).body, { default_action: 'allow' })
  t.same(events(), [])
})

t.test('D1 lic-09 without a licence changes are refused before anything else is looked at', async (t) => {
  const { call } = await firewall(t, { licensed: false })
  const error = 'no license installed: changes need an active license'
  for (const [method, path, body] of [
    ['POST', '/api/v1/rules', { nonsense: true }],
    ['PUT', '/api/v1/rules/9', { action: 'drop' }],
    ['DELETE', '/api/v1/rules/9', undefined],
    ['POST', '/api/v1/rules/batch', {}],
    ['PUT', '/api/v1/rules/default', { default_action: 'deny' }],
  ] as const) {
    const answer = await call(method, path, body)
    t.same([answer.status, answer.body], [403, { error }], `${method} ${path}`)
  }
  t.equal((await call('GET', '/api/v1/rules')).status, 200, 'reads go on')
  t.equal((await call('POST', '/api/v1/rules/1', {})).status, 404, 'an unknown route is 404 before')
})

t.test('fw-03 creations at the same time get ids of their own', async (t) => {
  const { create, planned } = await firewall(t)
  const rules: Rule[] = await Promise.all(
    Array.from({ length: 50 }, (_, at) => create({ action: 'drop', priority: at })),
  )
  t.equal(new Set(rules.map(({ id }) => id)).size, 50)
  t.equal(planned().length, 50)
})

t.test('fw-29 of two replacements at the same time one wins and the other finds nothing', async (t) => {
  const { call, create, planned, rules } = await firewall(t)
  await create(FULL)
  const answers = await Promise.all([1, 2].map((priority) => call('PUT', '/api/v1/rules/1', { ...FULL, priority })))
  t.same(answers.map(({ status }) => status).sort(), [200, 404])
  t.equal((await rules()).length, 1)
  t.equal(planned().length, 1)
})
