/** Tenants and their lifecycle, over a plane in memory. */
import t from 'tap'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { P, refusal, tenantsArea } from './area.ts'

t.test('tenant-01 tenant-02 tenant-03 what was added is listed and shown', async (t) => {
  const { call, ok, events } = await tenantsArea(t)
  t.same(await ok('GET', '/tenant'), { tenants: [] })
  const { status, body, headers } = await call('POST', `${P}/tenant`, { name: 'acme', plan: 'gold' })
  t.equal(status, 201)
  t.equal(headers['x-ignored-fields'], 'plan')
  const at = '2030-01-01T00:00:00.000Z'
  const tenant = body.tenant as { id: string }
  t.match(tenant.id, /^ten-[0-9a-f]{12}$/)
  t.same(body, {
    status: 'created',
    tenant: { id: tenant.id, name: 'acme', status: 'active', created_at: at, updated_at: at },
  })
  const { tenant: other } = await ok('POST', '/tenant', { name: 'Abel' })
  t.same(await ok('GET', '/tenant'), { tenants: [other, tenant] }, 'by name')
  t.same(await ok('GET', `/tenant/${tenant.id}`), { tenant })
  t.match(events(), [
    { type: 'tenant.created', area: 'tenants', resource: `${P}/tenant/${tenant.id}`, data: tenant },
    { type: 'tenant.created', data: other as object },
  ])
})

t.test('tenant-02 what is no tenant is refused, and nothing changes', async (t) => {
  const built = await tenantsArea(t)
  const { call, add } = built
  await add('acme')
  const before = JSON.stringify(snapshot(built))
  for (const [body, status, error] of [
    [undefined, 400, /name is required/],
    [{}, 400, /name is required/],
    [{ name: '' }, 400, /^name: /],
    [{ name: 'x'.repeat(64) }, 400, /^name: /],
    [{ name: 'a/b' }, 400, /^name: /],
    [{ name: 7 }, 400, /^name: /],
    [{ name: 'acme' }, 409, /^tenant acme already exists$/],
  ] as const) {
    const answer = await call('POST', `${P}/tenant`, body)
    t.equal(answer.status, status, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  t.equal(JSON.stringify(snapshot(built)), before)
})

t.test('D20 there are as many tenants as the configuration says', async (t) => {
  const { call, add, ok } = await tenantsArea(t, { config: { max_tenants: '2' } })
  const [first] = [await add(), await add()]
  t.same(refusal(await call('POST', `${P}/tenant`, { name: 'third' })), [409, 'limit reached: tenants (2)'])
  await ok('DELETE', `/tenant/${first.id}`)
  t.ok(await add('third'))
})

t.test('tenant-04 a change moves updated_at; what is no change is refused', async (t) => {
  const { call, ok, add, clock, events } = await tenantsArea(t)
  const [acme, other] = [await add('acme'), await add('other')]
  events()
  clock.ms += 5000
  const renamed = { ...acme, name: 'acme 2', updated_at: '2030-01-01T00:00:05.000Z' }
  t.same(await ok('PUT', `/tenant/${acme.id}`, { name: 'acme 2' }), { status: 'updated', tenant: renamed })
  clock.ms += 1
  const both = { ...acme, name: 'acme', status: 'suspended', updated_at: '2030-01-01T00:00:05.001Z' }
  t.same((await ok('PUT', `/tenant/${acme.id}`, { name: 'acme', status: 'suspended' })).tenant, both)
  t.same(await ok('GET', `/tenant/${acme.id}`), { tenant: both })
  t.same(await ok('GET', `/tenant/${other.id}`), { tenant: other })
  t.match(events(), [
    { type: 'tenant.updated', resource: `${P}/tenant/${acme.id}`, data: renamed },
    { type: 'tenant.updated', data: both },
  ])
  for (const [body, status, error] of [
    [{}, 400, /^name or status is required$/],
    [{ status: 'frozen' }, 400, /^status: /],
    [{ status: 1 }, 400, /^status: /],
    [{ name: '' }, 400, /^name: /],
    [{ name: 'other' }, 409, /^tenant other already exists$/],
    [{ name: 'other', status: 'active' }, 409, /already exists/],
  ] as const) {
    const answer = await call('PUT', `${P}/tenant/${acme.id}`, body)
    t.equal(answer.status, status, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  t.same(await ok('GET', `/tenant/${acme.id}`), { tenant: both })
  t.equal((await call('PUT', `${P}/tenant/${acme.id}`, { name: 'acme' })).status, 200, 'its own name')
})

t.test('tenant-11 state-11 active, suspended and back, deleted from either, and nothing leaves deleted', async (t) => {
  const { call, ok, add, events } = await tenantsArea(t)
  const [one, two, three] = [await add('one'), await add('two'), await add('three')]
  const set = (id: string, status: string) => call('PUT', `${P}/tenant/${id}`, { status })
  for (const status of ['suspended', 'suspended', 'active', 'active', 'suspended', 'active']) {
    t.match((await set(one.id, status)).body, { status: 'updated', tenant: { status } })
  }
  await set(two.id, 'suspended')
  events()
  t.same((await set(one.id, 'deleted')).body, { status: 'deleted', id: one.id }, 'as DELETE answers')
  t.same(await ok('DELETE', `/tenant/${two.id}`), { status: 'deleted', id: two.id })
  t.match(
    events().map(({ type, data }) => [type, data]),
    [
      ['tenant.deleted', { id: one.id }],
      ['tenant.deleted', { id: two.id }],
    ],
  )
  for (const { id } of [one, two]) {
    for (const status of ['active', 'suspended', 'deleted']) {
      t.same(refusal(await set(id, status)), [404, `tenant ${id} not found`])
    }
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/quota'],
      ['PUT', '/quota'],
      ['GET', '/keys'],
      ['POST', '/keys'],
      ['DELETE', '/keys/key-1'],
      ['GET', '/networks'],
      ['GET', '/addresses'],
      ['GET', '/usage'],
    ] as const) {
      const body = method === 'POST' ? { label: 'k' } : undefined
      t.same(refusal(await call(method, `${P}/tenant/${id}${path}`, body)), [404, `tenant ${id} not found`])
    }
  }
  t.same(await ok('GET', '/tenant'), { tenants: [three] })
  t.not((await add('one')).id, one.id, 'the name is free again, the id is not')
})

t.test('D18 a tenant and its quota are changed by whoever has read them as they are', async (t) => {
  const { call, add } = await tenantsArea(t)
  const { id } = await add()
  for (const [path, body] of [
    ['', { name: 'renamed' }],
    ['/quota', { networks: 3 }],
  ] as const) {
    const at = `${P}/tenant/${id}${path}`
    const tag = String((await call('GET', at)).headers.etag)
    t.equal((await call('PUT', at, body, { 'if-match': '"other"' })).status, 412)
    t.equal((await call('PUT', at, body, { 'if-match': tag })).status, 200)
    t.equal((await call('PUT', at, body, { 'if-match': tag })).status, 412, 'that was before')
  }
  t.equal((await call('DELETE', `${P}/tenant/${id}`, undefined, { 'if-match': '"other"' })).status, 412)
  const { etag } = (await call('GET', `${P}/tenant/${id}`)).headers
  t.equal((await call('PUT', `${P}/tenant/${id}`, { status: 'deleted' }, { 'if-match': String(etag) })).status, 200)
})

t.test('a tenant that nobody knows gets nothing', async (t) => {
  const { call } = await tenantsArea(t)
  const unknown = [404, 'tenant ten-none not found']
  const tenant_id = 'ten-none'
  const network = { name: 'n', cidr: '10.0.0.0/24', tenant_id }
  t.same(refusal(await call('POST', `${P}/networks`, network)), unknown)
  t.same(refusal(await call('POST', `${P}/ipam/pools`, { name: 'p', subnet: '10.0.0.0/24', tenant_id })), unknown)
  t.same(refusal(await call('POST', `${P}/routed-addresses`, { cidr: '8.8.4.0/30', tenant_id })), unknown)
  t.equal((await call('GET', `${P}/ipam/pools?tenant_id=ten-none`)).status, 200, 'a list of none is a list')
  const long = await call('GET', `${P}/tenant/${'%F0%9F%98%80'.repeat(20)}`)
  t.match(long, { status: 404, body: { error: /^tenant \?+ not found$/ } })
})

t.test('a list longer than a page is whole', async (t) => {
  const { agent, ok } = await tenantsArea(t)
  const { createTenant } = await import('../rules.ts')
  await agent.pipeline.mutate('tenants', { actor: { kind: 'system', label: 't' }, requestId: 'r' }, (tx) => {
    for (let n = 0; n < 1203; n++) {
      createTenant(tx, { name: `t${n}` }, { id: `ten-${n}`, now: '2030-01-01T00:00:00.000Z', max: 5000 })
    }
    return { result: undefined, touch: [], events: [] }
  })
  const { tenants } = (await ok('GET', '/tenant')) as { tenants: { id: string }[] }
  t.equal(new Set(tenants.map(({ id }) => id)).size, 1203)
  const text = await agent.metrics.text()
  t.match(text, /^stratum_tenants_tenants 1203$/m)
  t.match(text, /^stratum_tenants_tenants_limit 4096$/m)
  t.match(text, /^stratum_tenants_keys 0$/m)
})
