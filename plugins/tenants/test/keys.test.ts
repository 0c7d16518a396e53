/** Scoped keys: minted, used, expired and revoked; where they reach, and where nothing of them may stand. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { ApiError } from '../../../core/errors.ts'
import { hashSecret } from '../../../core/gates/bearer.ts'
import { system } from '../../../core/state/events.ts'
import { fc } from '../../../test/property.ts'
import { mintKey, revokeKey } from '../keys.ts'
import { P, refusal, tenantsArea } from './area.ts'

const UNAUTHORIZED = [401, 'unauthorized']

t.test('auth-10 tenant-08 tkey-07 tkey-08 a key is shown once, and lists hold none', async (t) => {
  const { ok, call, as, add, events } = await tenantsArea(t)
  const { id } = await add('acme')
  events()
  const { status, body, headers } = await call('POST', `${P}/tenant/${id}/keys`, { label: 'portal' })
  t.equal(status, 201)
  t.equal(headers['cache-control'], 'no-store')
  const { key, secret } = body as { key: { id: string; prefix: string }; secret: string }
  t.match(key.id, /^key-[0-9a-f]{12}$/)
  t.equal(key.prefix, `tk_${key.id}`)
  t.match(secret, new RegExp(`^${key.prefix}_[A-Za-z0-9_-]{43}$`))
  const created_at = '2030-01-01T00:00:00.000Z'
  const shown = { id: key.id, tenant_id: id, label: 'portal', prefix: key.prefix, created_at, created_by: 'token node' }
  t.same(body, { status: 'created', key: shown, secret })
  t.same(await ok('GET', `/tenant/${id}/keys`), { keys: [shown] })
  t.match(events(), [{ type: 'tenant_key.created', resource: `${P}/tenant/${id}/keys/${key.id}`, data: shown }])

  t.equal((await as(secret, 'GET', `/tenant/${id}`)).status, 200)
  const expires_at = '2030-02-01T01:00:00+01:00'
  const own = await as(secret, 'POST', `/tenant/${id}/keys`, { label: 'of its own', expires_at })
  t.match(own, {
    status: 201,
    body: { key: { created_by: `tenant ${key.id}`, expires_at: '2030-02-01T00:00:00.000Z' } },
  })
  t.match(events(), [{ type: 'tenant_key.created', actor: { kind: 'tenant', label: key.id } }])
  const { keys } = (await as(secret, 'GET', `/tenant/${id}/keys`)).body as { keys: { id: string }[] }
  t.same(new Set(keys.map((one) => one.id)), new Set([key.id, (own.body.key as { id: string }).id]))
})

t.test('tenant-08 what asks for no key gets none', async (t) => {
  const { call, add } = await tenantsArea(t)
  const { id } = await add()
  for (const [body, error] of [
    [{}, /^label is required$/],
    [{ label: '' }, /^label: /],
    [{ label: 'a\u0000' }, /^label: /],
    ...['', 'tomorrow', '2029-12-31T23:59:59Z', '2030-01-01T00:00:00Z', '2030-02-30T00:00:00Z', '2030-01-31'].map(
      (expires_at) => [{ label: 'k', expires_at }, expires_at === '' ? undefined : /^expires_at: must be/] as const,
    ),
    [{ label: 'k', expires_at: '9999-12-31T23:59:59-23:00' }, /^expires_at: /],
    [{ label: 'k', expires_at: 1893456000 }, /^expires_at: /],
  ] as const) {
    const answer = await call('POST', `${P}/tenant/${id}/keys`, body)
    t.equal(answer.status, error ? 400 : 201, JSON.stringify(body))
    if (error) t.match(answer.body.error, error)
  }
})

t.test('an end that is taken is one that Date takes too, and lies ahead', async (t) => {
  const { agent, add, clock } = await tenantsArea(t)
  const { id } = await add()
  const digits = fc.stringMatching(
    /^20[23]\d-[01]\d-[0-3]\d[Tt ][0-2]\d:[0-6]\d:[0-6]\d(\.\d{1,4})?([Zz]|[+-][0-2]\d:[0-6]\d)?$/,
  )
  const met = new Set<string>()
  const minting = { secret: 's', now: new Date(clock.ms), by: 'test', max: 1000 }
  await agent.pipeline.mutate('tenants', system('test'), (tx) => {
    fc.assert(
      fc.property(fc.oneof(digits, digits, fc.string(), fc.date({ noInvalidDate: true }).map(String)), (expires_at) => {
        try {
          const { key } = mintKey(tx, id, { label: 'k', expires_at }, { ...minting, id: `key-${met.size}` }).result
          revokeKey(tx, id, key.id)
          met.add(expires_at === '' ? 'none' : 'taken')
          if (expires_at === '') return key.expires_at === undefined
          return Date.parse(expires_at) === Date.parse(key.expires_at ?? '') && Date.parse(expires_at) > clock.ms
        } catch (error) {
          met.add('refused')
          return error instanceof ApiError && error.status === 400
        }
      }),
      { numRuns: 1000 },
    )
    return { result: undefined, touch: [], events: [] }
  })
  t.ok(met.has('taken') && met.has('refused'), 'control')
})

t.test(
  'auth-15 tkey-09 tenant-09 a revoked key is worth nothing from the next call on, the last one too',
  async (t) => {
    const { as, call, ok, add, mint, events } = await tenantsArea(t)
    const [tenant, other] = [await add(), await add()]
    const [one, two] = [await mint(tenant), await mint(tenant)]
    const at = `/tenant/${tenant.id}`
    t.equal((await as(two.secret, 'GET', at)).status, 200)
    events()
    t.same(await ok('DELETE', `${at}/keys/${two.key.id}`), { status: 'revoked', id: two.key.id })
    t.same(
      events().map(({ type, data }) => [type, data]),
      [['tenant_key.deleted', { id: two.key.id, tenant_id: tenant.id }]],
    )
    t.same(refusal(await as(two.secret, 'GET', at)), UNAUTHORIZED)
    t.same(refusal(await call('DELETE', `${P}${at}/keys/${two.key.id}`)), [404, `key ${two.key.id} not found`])
    t.equal((await call('DELETE', `${P}/tenant/${other.id}/keys/${one.key.id}`)).status, 404, 'the key of another')
    t.same((await as(one.secret, 'DELETE', `${at}/keys/${one.key.id}`)).body, { status: 'revoked', id: one.key.id })
    t.same(refusal(await as(one.secret, 'GET', at)), UNAUTHORIZED)
    t.same(await ok('GET', `${at}/keys`), { keys: [] })
  },
)

t.test('tkey-09 a change whose key is revoked while it waits for its turn is not made', async (t) => {
  const { agent, as, add, mint, ok } = await tenantsArea(t)
  const tenant = await add()
  const kept = await mint(tenant)
  const at = `/tenant/${tenant.id}/keys`
  const known = agent.credentials.keys.get('tk')
  if (known === undefined) throw new Error('nobody knows the keys')
  for (const [method, path, body] of [
    ['POST', at, { label: 'k' }],
    ['DELETE', `${at}/${kept.key.id}`],
  ] as const) {
    const { secret, key } = await mint(tenant)
    const { answer } = await agent.pipeline.exclusively(async () => {
      const found = new Promise<void>((resolve) => {
        agent.credentials.keys.set('tk', (...presented) => {
          resolve()
          return known(...presented)
        })
      })
      const answer = as(secret, method, path, body)
      await found
      agent.store.write.run(sql`DELETE FROM tenants_keys WHERE id = ${key.id}`)
      return { answer }
    })
    t.same(refusal(await answer), UNAUTHORIZED, method)
  }
  const { keys } = (await ok('GET', at)) as { keys: { id: string }[] }
  t.same(
    keys.map(({ id }) => id),
    [kept.key.id],
  )
})

t.test('D105 a key is worth nothing once it expires', async (t) => {
  const { as, add, mint, clock } = await tenantsArea(t)
  const tenant = await add()
  const { secret } = await mint(tenant, { expires_at: '2030-01-01t00:01:00z' })
  clock.ms += 59_999
  t.equal((await as(secret, 'GET', `/tenant/${tenant.id}`)).status, 200)
  clock.ms += 1
  t.same(refusal(await as(secret, 'GET', `/tenant/${tenant.id}`)), UNAUTHORIZED)
})

t.test('D40 tenant-06 the keys of a deleted tenant are 401', async (t) => {
  const { as, add, mint, ok } = await tenantsArea(t)
  const tenant = await add()
  const { secret } = await mint(tenant)
  await ok('DELETE', `/tenant/${tenant.id}`)
  for (const path of [`/tenant/${tenant.id}`, '/status', '/nope']) {
    t.same(refusal(await as(secret, 'GET', path)), UNAUTHORIZED)
  }
})

t.test('D40 D103 a suspended tenant reads, and neither it nor the operator mints a key for it', async (t) => {
  const { as, add, mint, call, ok } = await tenantsArea(t)
  const tenant = await add('acme')
  const { secret, key } = await mint(tenant)
  const at = `/tenant/${tenant.id}`
  await ok('PUT', at, { status: 'suspended' })
  for (const path of ['', '/quota', '/keys', '/networks', '/addresses', '/usage']) {
    t.equal((await as(secret, 'GET', `${at}${path}`)).status, 200, path)
  }
  t.same(refusal(await as(secret, 'POST', `${at}/keys`, { label: 'k' })), [403, 'tenant suspended'])
  t.same(refusal(await as(secret, 'DELETE', `${at}/keys/${key.id}`)), [403, 'tenant suspended'])
  t.match(refusal(await call('POST', `${P}${at}/keys`, { label: 'k' })), [
    409,
    'tenant acme is suspended and gets no more keys; set it active first',
  ])
  await ok('PUT', at, { status: 'active' })
  t.equal((await as(secret, 'POST', `${at}/keys`, { label: 'k' })).status, 201)
})

t.test('D20 a tenant has as many keys as the node admits', async (t) => {
  const { call, add, mint } = await tenantsArea(t, { config: { max_tenant_keys: '2' } })
  const [tenant, other] = [await add(), await add()]
  await mint(tenant)
  await mint(tenant)
  t.same(refusal(await call('POST', `${P}/tenant/${tenant.id}/keys`, { label: 'k' })), [409, 'limit reached: keys (2)'])
  t.ok(await mint(other))
})

t.test('auth-28 keys and their hashes stand in no log, event, answer or file', async (t) => {
  const { agent, as, add, mint, call, logged, stateDir } = await tenantsArea(t)
  const own = await add()
  const { secret, key } = await mint(own)
  const answers = [
    await as(secret, 'GET', `/tenant/${own.id}/keys`),
    await as(secret, 'POST', `/tenant/${own.id}/keys`, {}),
    await as(`${secret}x`, 'GET', `/tenant/${own.id}`),
    await call('GET', `${P}/tenant/${own.id}/keys`),
    await call('DELETE', `${P}/tenant/${own.id}/keys/${key.id}`),
    await as(secret, 'GET', '/nope'),
  ]
  const tail = secret.slice(key.prefix.length + 1)
  const hash = hashSecret(tail)
  const files = readdirSync(stateDir).map((name) => readFileSync(join(stateDir, name), 'latin1'))
  const places: [string, string][] = [
    ...answers.map(({ text, headers }) => ['answer', text + JSON.stringify(headers)] as [string, string]),
    ['log', JSON.stringify(logged)],
    ['events', JSON.stringify(agent.outbox.after(0, 1000))],
    ['metrics', await agent.metrics.text()],
  ]
  for (const [where, text] of places) {
    t.notOk(text.includes(tail), `${where}: the key`)
    t.notOk(text.includes(hash.toString('hex')), `${where}: its hash`)
  }
  t.notOk(
    files.some((text) => text.includes(tail)),
    'no file holds the key',
  )
  t.ok(
    files.some((text) => text.includes(hash.toString('hex'))),
    'control: the store holds its hash',
  )
})

t.test('no text but the key itself is one', async (t) => {
  const { as, add, mint, agent } = await tenantsArea(t)
  const own = await add()
  const { secret, key } = await mint(own)
  const [, stranger] = [await add(), await mint(await add())]
  const resolve = agent.credentials.keys.get('tk')
  const tail = secret.slice(key.prefix.length + 1)
  const mixed = [
    ...[`${key.prefix}_${stranger.secret.slice(-43)}`, `ok_${key.id}_${tail}`, key.prefix, `${key.prefix}_`],
    ...[secret.slice(0, -1), `${secret}A`, secret.toLowerCase(), ` ${secret} x`, `tk_${key.id.slice(4)}_${tail}`],
  ]
  for (const wrong of mixed) {
    t.same(refusal(await as(wrong, 'GET', `/tenant/${own.id}`)), UNAUTHORIZED, wrong.slice(0, 24))
  }
  fc.assert(
    fc.property(fc.oneof(fc.constant(key.id), fc.string()), fc.oneof(fc.string(), fc.constant(tail)), (id, text) => {
      const found = resolve?.(id, text)
      return (found !== undefined) === (id === key.id && text === tail)
    }),
    { numRuns: 500 },
  )
})
