/** Who may call: credentials, source addresses, tenant scope. */
import t from 'tap'
import type { BuildAgentOptions, BuiltAgent } from '../../../test/build.ts'
import { TOKEN } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import {
  CLUSTER_ROUTES,
  GATED_ROUTES,
  OTHER,
  OWN,
  probe,
  REVOKED_KEY,
  SUSPENDED_KEY,
  TENANT_KEY,
  TENANT_ROUTES,
  tenantKeys,
} from '../../../test/rest/areas.ts'
import { ask, openAgent, refusal } from '../../../test/rest/ask.ts'

const OUTSIDE = [403, 'forbidden: a tenant key may only act on its own tenant']
const P = '/api/v1'
const PUBLIC = [`${P}/health`, `${P}/docs`, `${P}/tls/pubkey`]

interface Tenanted extends BuiltAgent {
  hits: ReturnType<typeof probe>['hits']
}

async function tenanted(scope: Scope, options: BuildAgentOptions = {}): Promise<Tenanted> {
  const area = probe('lodgers', ['/tenant', '/billing'], [...TENANT_ROUTES, ...GATED_ROUTES, ...CLUSTER_ROUTES])
  const built = await openAgent(scope, { extraAreas: [area.plugin], ...options })
  built.agent.credentials.keys.set('tk', tenantKeys)
  return { ...built, hits: area.hits }
}

/** Every registered route, its parameters filled. */
function calls({ agent }: BuiltAgent): { method: string; route: string; url: string; isPublic: boolean }[] {
  return agent.routes.flatMap(({ method, url, config }) =>
    [method].flat().map((one) => ({
      method: one,
      route: url,
      url: url.replace(/:[a-z]+/g, OTHER),
      isPublic: config?.public === true,
    })),
  )
}

t.test('auth-01 auth-02 auth-03 err-02 a missing or wrong credential is exactly unauthorized', async (t) => {
  const { agent } = await openAgent(t)
  const wrong: (string | undefined)[] = [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer x',
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN.slice(0, -1)}`,
    `Bearer ${TOKEN.toUpperCase()}`,
    `Bearer ${TOKEN} ${TOKEN}`,
    `Bearer ${TOKEN},${TOKEN}`,
    `Bearer "${TOKEN}"`,
    `Bearer ${'a'.repeat(8000)}`,
    'Bearer ok_0123456789ab_secret',
    'Bearer ok__',
    'Bearer tk_a1_secret',
    'Bearer zz_a1_secret',
    TOKEN,
    `Token ${TOKEN}`,
    `Bearer\t${TOKEN}`,
    `Basic ${Buffer.from(`node:${TOKEN}`).toString('base64')}`,
    `Basic ${TOKEN}`,
    `Digest username="${TOKEN}"`,
  ]
  for (const authorization of wrong) {
    for (const [method, url] of [
      ['GET', `${P}/status`],
      ['POST', `${P}/rules`],
    ] as const) {
      const answer = await ask(agent, method, url, {
        token: null,
        headers: authorization === undefined ? {} : { authorization },
      })
      const label = `${method} with ${authorization?.slice(0, 40)}`
      t.equal(answer.status, 401, label)
      t.equal(answer.text, '{"error":"unauthorized"}', label)
      t.match(answer.headers['content-type'], /^application\/json/, label)
    }
  }
})

t.test('auth-04 the node token authenticates REST, the scheme in any case', async (t) => {
  const { agent } = await openAgent(t)
  for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
    const headers = { authorization: `${scheme} ${TOKEN}` }
    t.equal((await ask(agent, 'GET', `${P}/status`, { token: null, headers })).status, 200, scheme)
  }
  const elsewhere = await ask(agent, 'GET', `${P}/status?token=${TOKEN}&access_token=${TOKEN}`, { token: null })
  t.equal(elsewhere.status, 401, 'never from the query')
  const cookie = await ask(agent, 'GET', `${P}/status`, { token: null, headers: { cookie: `token=${TOKEN}` } })
  t.equal(cookie.status, 401, 'never from a cookie')
})

t.test('auth-04 without a configured token nothing authenticates', async (t) => {
  const { agent } = await openAgent(t)
  agent.credentials.tokenHash = undefined
  for (const token of [TOKEN, '', 'undefined', 'null']) {
    t.equal((await ask(agent, 'GET', `${P}/status`, { token })).status, 401, token)
  }
})

t.test('auth-07 tkey-17 an operator key is node-wide, and is worth nothing once revoked', async (t) => {
  const built = await tenanted(t)
  const { agent } = built
  const { mintOperatorKey, revokeOperatorKey } = await import('../../operator-keys.ts')
  const origin = { actor: { kind: 'cli' as const, label: 'root' }, requestId: 'r' }
  const minted = await agent.pipeline.mutate('core', origin, (tx) => mintOperatorKey(tx, 'ci', new Date()))
  agent.operatorKeys.reload()
  const { id, key: token } = minted.result
  for (const { method, url } of calls(built)) {
    if (!url.startsWith(P)) continue
    const { status } = await ask(agent, method, url, { token, json: {} })
    t.notOk([401, 403].includes(status), `${method} ${url}: ${status}`)
  }
  const forged = [`ok_${id}_`, `ok_${id}_x`, `ok_${id}`, token.slice(0, -1), `${token}x`, token.replace('ok_', 'tk_')]
  for (const wrong of forged) t.equal((await ask(agent, 'GET', `${P}/status`, { token: wrong })).status, 401, wrong)
  await agent.pipeline.mutate('core', origin, (tx) => revokeOperatorKey(tx, id))
  agent.operatorKeys.reload()
  t.same(refusal(await ask(agent, 'GET', `${P}/status`, { token })), [401, 'unauthorized'])
})

t.test('auth-13 three paths are public, every other registered route is not', async (t) => {
  const built = await tenanted(t)
  const all = calls(built)
  t.ok(all.length > 60, `${all.length} calls`)
  for (const { method, url } of all) {
    const { status } = await ask(built.agent, method, url, { token: null })
    const open = PUBLIC.includes(url) && (method === 'GET' || method === 'HEAD')
    if (open) t.not(status, 401, `${method} ${url}`)
    else t.equal(status, 401, `${method} ${url}`)
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
    for (const url of PUBLIC) t.equal((await ask(built.agent, method, url, { token: null })).status, 401, method)
  }
  t.same(built.hits, [], 'no handler was reached')
})

t.test('auth-13 a wrong credential does not close a public path, and is not counted there', async (t) => {
  const { agent } = await openAgent(t, { config: { api_auth_fail_limit: '1' } })
  for (let i = 0; i < 3; i++) t.equal((await ask(agent, 'GET', `${P}/health`, { token: 'wrong' })).status, 200)
})

t.test('auth-14 unknown paths without a credential are 401 and tell nothing', async (t) => {
  const { agent } = await openAgent(t)
  const unknown = [
    '/api/v1/nope',
    '/api/v1/networks/1',
    '/api/v1/rules/1/2/3',
    '/api/v1',
    '/api/v1/',
    '/',
    '/control/v1/token',
    '/api/v2/status',
    '/favicon.ico',
    '/api/v1/%zz',
    '/api/v1/health/%zz',
    '/api/v1/%ff',
    `/api/v1/rules/${'a'.repeat(4000)}`,
    `/api/v1/${'a/'.repeat(2000)}`,
  ]
  for (const url of unknown) {
    for (const method of ['GET', 'POST', 'DELETE', 'PATCH', 'OPTIONS']) {
      const answer = await ask(agent, method, url, { token: null })
      t.equal(answer.text, '{"error":"unauthorized"}', `${method} ${url.slice(0, 40)}`)
      t.equal(answer.status, 401, `${method} ${url.slice(0, 40)}`)
    }
  }
})

t.test('auth-16 auth-17 auth-18 api_allowed_ips admits what it lists, at once and before all else', async (t) => {
  const { agent } = await openAgent(t)
  const from = async (address: string, url = `${P}/status`) => (await ask(agent, 'GET', url, { from: address })).status
  const allow = async (list: string) => {
    agent.overrides.change((content) => {
      content.config.api_allowed_ips = list
    })
    await agent.config.reload()
  }
  for (const address of ['192.0.2.1', '2001:db8::1', '::ffff:192.0.2.1']) t.equal(await from(address), 200, address)

  await allow('192.0.2.7, 198.51.100.0/24, 2001:db8:1::/48, 2001:db8:2::9')
  const admitted = ['192.0.2.7', '::ffff:192.0.2.7', '198.51.100.0', '198.51.100.255', '2001:db8:1::1', '2001:db8:2::9']
  const refused = ['192.0.2.8', '::ffff:192.0.2.8', '198.51.101.0', '2001:db8:2::8', '127.0.0.1', '::1']
  for (const address of admitted) t.equal(await from(address), 200, address)
  for (const address of refused) {
    for (const url of [`${P}/status`, `${P}/health`, `${P}/nope`, '/', `${P}/%zz`]) {
      const answer = await ask(agent, 'GET', url, { from: address })
      t.same(refusal(answer), [403, 'forbidden: source address not allowed'], `${address} ${url}`)
    }
  }
  const spoofed = { 'x-forwarded-for': '192.0.2.7', 'x-real-ip': '192.0.2.7', forwarded: 'for=192.0.2.7' }
  t.equal((await ask(agent, 'GET', `${P}/health`, { from: '192.0.2.8', headers: spoofed })).status, 403, 'D38')
  await allow('0.0.0.0/0')
  t.equal(await from('2001:db8::1'), 403, 'IPv4 for all is not IPv6 for all')
  t.equal(await from('::ffff:203.0.113.5'), 200)
  await allow('')
  t.equal(await from('192.0.2.8'), 200)
})

t.test('auth-16 an IPv6 address that merely ends in a listed IPv4 one is not on the list', async (t) => {
  const { agent } = await openAgent(t, { config: { api_allowed_ips: '192.0.2.7' } })
  for (const from of ['::192.0.2.7', '64:ff9b::192.0.2.7', '2002:c000:207::1', '::ffff:0:192.0.2.7']) {
    t.same(
      refusal(await ask(agent, 'GET', `${P}/status`, { from })),
      [403, 'forbidden: source address not allowed'],
      from,
    )
  }
})

t.test('auth-16 a reload that the kernel refuses still closes the API to who is no longer listed', async (t) => {
  const { agent, plane } = await openAgent(t)
  plane.observe = async () => {
    throw new Error('no netlink')
  }
  agent.overrides.change((content) => {
    content.config.api_allowed_ips = '192.0.2.7'
  })
  await t.rejects(agent.config.reload(), { message: 'no netlink' })
  t.equal(agent.config.text('api_allowed_ips'), '192.0.2.7', 'the configuration says so')
  t.equal((await ask(agent, 'GET', `${P}/status`, { from: '192.0.2.8' })).status, 403, 'and so does the gate')
})

t.test('tkey-01 tkey-02 tkey-19 a tenant key outside its tenant, over every route', async (t) => {
  const built = await tenanted(t)
  for (const { method, url, isPublic } of calls(built)) {
    if (isPublic) continue
    const answer = await ask(built.agent, method, url, { token: TENANT_KEY })
    t.equal(answer.status, 403, `${method} ${url}`)
    if (method !== 'HEAD') t.same(refusal(answer), OUTSIDE, `${method} ${url}`)
  }
  for (const url of ['/nope', '/tenant', '/tenant/', '/billing/tenants', '/billing', '/tenants', `/${OWN}`]) {
    t.same(refusal(await ask(built.agent, 'GET', `${P}${url}`, { token: TENANT_KEY })), OUTSIDE, url)
  }
  t.same(built.hits, [])
})

t.test('tkey-04 to tkey-15 inside its tenant: what is the tenant’s passes, the operator’s does not', async (t) => {
  const built = await tenanted(t)
  for (const { method, path, access } of TENANT_ROUTES) {
    if (!path.includes(':id')) continue
    const url = `${P}${path.replace(':id', OWN).replace(':kid', 'key-1')}`
    const answer = await ask(built.agent, String(method), url, { token: TENANT_KEY })
    if (access === 'tenant') t.equal(answer.status, 200, `${method} ${url}`)
    else {
      t.equal(answer.status, 403, `${method} ${url}`)
      t.match(answer.body.error, /^forbidden: this change is reserved for the operator/, `${method} ${url}`)
    }
  }
  t.same(new Set(built.hits.map(({ params }) => params.id)), new Set([OWN]))
  t.same(refusal(await ask(built.agent, 'GET', `${P}/tenant/${OWN}/nope`, { token: TENANT_KEY })), [
    404,
    'no such path',
  ])
})

t.test('auth-15 D40 revoked keys are 401; suspended ones read and do not write', async (t) => {
  const built = await tenanted(t)
  const at = `${P}/tenant/${OWN}`
  t.same(refusal(await ask(built.agent, 'GET', at, { token: REVOKED_KEY })), [401, 'unauthorized'])
  t.equal((await ask(built.agent, 'GET', at, { token: SUSPENDED_KEY })).status, 200)
  for (const [method, url] of [
    ['POST', `${at}/keys`],
    ['DELETE', `${at}/keys/1`],
  ] as const) {
    t.same(refusal(await ask(built.agent, method, url, { token: SUSPENDED_KEY })), [403, 'tenant suspended'])
  }
  t.equal(built.hits.length, 1)
})

t.test('tkey-16 the node token is never confined', async (t) => {
  const built = await tenanted(t)
  for (const tenant of [OWN, OTHER]) {
    for (const { method, path } of TENANT_ROUTES) {
      const url = `${P}${path.replace(':id', tenant).replace(':kid', 'k')}`
      t.equal((await ask(built.agent, String(method), url)).status, 200, `${method} ${url}`)
    }
  }
})
