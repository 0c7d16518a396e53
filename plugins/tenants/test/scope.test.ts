/** Where a tenant's key reaches, and where it does not. */
import t from 'tap'
import {
  refusal as handshake,
  healthClient,
  rig,
  serveEvents,
  serveHealth,
} from '../../../core/transport/stream/test/rig.ts'
import { AREAS, freeze, P, refusal, tenantsArea } from './area.ts'

const OUTSIDE = [403, 'forbidden: a tenant key may only act on its own tenant']

t.test('tkey-01 tkey-02 tkey-19 tkey-20 outside its own tenant a key reaches nothing', async (t) => {
  const { agent, as, add, mint } = await tenantsArea(t)
  const [own, other] = [await add(), await add()]
  const { secret } = await mint(own)
  for (const { method, url, config } of agent.routes) {
    if (config?.public || method === 'HEAD' || !url.startsWith(P)) continue
    const path = url.slice(P.length).replace('/tenant/{id}', `/tenant/${other.id}`).replace(/:\w+/g, 'x')
    const answer = await as(secret, String(method), path, method === 'POST' || method === 'PUT' ? {} : undefined)
    t.same(refusal(answer), OUTSIDE, `${method} ${path}`)
  }
  for (const path of [
    ...['/tenant', '/tenant/', '/nope', '/billing', '/billing/tenants', `/billing/tenants/${other.id}`],
    ...[`/tenant/${own.id.toUpperCase()}`, `/TENANT/${own.id}`, `//tenant/${own.id}`, `/tenant//${own.id}`],
    ...[`/tenant/${own.id}%2F..%2F${other.id}`, `/tenant/${own.id}%2f`],
    ...[`/billing/tenant/${own.id}`],
    ...[`/tenant/${own.id}x`, `/tenant/${own.id};`, `/tenant/${own.id}%00`],
  ]) {
    t.same(refusal(await as(secret, 'GET', path)), OUTSIDE, path)
  }
  for (const path of [`/tenant/${own.id}/`, `/tenant/${own.id}?id=${other.id}`, `/tenant/%74${own.id.slice(1)}`]) {
    t.match(await as(secret, 'GET', path), { status: 200, body: { tenant: { id: own.id } } }, path)
  }
})

t.test('tkey-04 tkey-05 tkey-11 tkey-12 tkey-13 tkey-15 what a key may do in its tenant', async (t) => {
  const { as, add, mint, agent } = await tenantsArea(t)
  const own = await add()
  const { secret } = await mint(own)
  const at = `/tenant/${own.id}`
  for (const path of ['', '/quota', '/keys', '/networks', '/addresses', '/usage']) {
    t.equal((await as(secret, 'GET', `${at}${path}`)).status, 200, path)
  }
  const before = agent.outbox.bounds().latest
  const table: [string, string, string?][] = [
    ['PUT', '', 'PUT /api/v1/tenant/{id}'],
    ['DELETE', '', 'DELETE /api/v1/tenant/{id}'],
    ['PUT', '/quota', 'PUT /api/v1/tenant/{id}/quota'],
    ['POST', '/machines', 'POST /api/v1/tenant/{id}/machines'],
    ['DELETE', '/machines/vm1', 'DELETE /api/v1/tenant/{id}/machines/{mid}'],
    ...['POST /networks', 'DELETE /networks/net-1', 'POST /volumes', 'PUT /usage', 'PATCH '].map((text) => {
      const [method = '', path = ''] = text.split(' ')
      return [method, path] as [string, string]
    }),
  ]
  for (const [method, path, action] of table) {
    const message = `forbidden: this change is reserved for the operator${action === undefined ? '' : ` (${action})`}`
    t.same(refusal(await as(secret, method, `${at}${path}`, {})), [403, message], `${method} ${path}`)
  }
  t.equal(agent.outbox.bounds().latest, before)
  t.same(refusal(await as(secret, 'GET', `${at}/nope`)), [404, 'no such path'])
})

t.test('D106 a tenant sees its machines; their power, password and console are no business of this node', async (t) => {
  const { as, call, add, mint } = await tenantsArea(t)
  const own = await add()
  const { secret } = await mint(own)
  const at = `/tenant/${own.id}/machines`
  t.same((await as(secret, 'GET', at)).body, { machines: [] })
  t.same(refusal(await as(secret, 'GET', `${at}/vm1`)), [404, 'machine vm1 not found'])
  const unavailable = [
    503,
    'compute service not available: this node carries the traffic of machines and does not run them; ask their hypervisor',
  ]
  for (const action of ['power', 'password', 'console']) {
    t.same(refusal(await as(secret, 'POST', `${at}/vm1/${action}`, {})), unavailable, action)
    t.same(refusal(await call('POST', `${P}${at}/vm1/${action}`, {})), unavailable)
  }
})

t.test('auth-11 auth-12 a key is good on REST only', async (t) => {
  const node = await rig(t, { only: AREAS })
  const { tenant } = (await node.call('POST', `${P}/tenant`, { name: 'acme' })).body as { tenant: { id: string } }
  const { secret } = (await node.call('POST', `${P}/tenant/${tenant.id}/keys`, { label: 'k' })).body
  const authorization = `Bearer ${secret}`
  t.equal((await node.call('GET', `${P}/tenant/${tenant.id}`, undefined, { authorization })).status, 200)
  const stream = await handshake(await serveEvents(t, node), node, `${P}/events`, { authorization })
  t.match(stream, { status: 401, body: { error: 'unauthorized' } })
  const health = await healthClient(t, await serveHealth(t, node), node)
  const unauthenticated = 16
  await t.rejects(health.check('', authorization), { code: unauthenticated })
})

t.test('tkey-18 frozen: a tenant is told that its machines run on, and its keys read', async (t) => {
  const built = await tenantsArea(t)
  const { as, add, mint, call, clock } = built
  const own = await add()
  const { secret, key } = await mint(own)
  freeze(built)
  const at = `/tenant/${own.id}`
  const paused = [403, 'changes are paused on this server; your machines keep running']
  t.same(refusal(await as(secret, 'POST', `${at}/keys`, { label: 'k' })), paused)
  t.same(refusal(await as(secret, 'DELETE', `${at}/keys/${key.id}`)), paused)
  t.match(refusal(await call('POST', `${P}${at}/keys`, { label: 'k' })), [403, /^license inactive: /])
  t.equal((await as(secret, 'GET', at)).status, 200)
  t.ok(clock.ms > 0)
})
