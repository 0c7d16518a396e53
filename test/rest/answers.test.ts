/** What answers look like, over the routes of this build: shapes, statuses, headers, compression. */
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import type { TSchema } from 'typebox'
import { acceptsGzip } from '../../core/transport/conventions.ts'
import { KernelRefusal } from '../../dataplane/plane.ts'
import { type BuiltAgent, TOKEN } from '../build.ts'
import type { Scope } from '../netns.ts'
import { type ProbeRoute, probe, TENANT_KEY, tenantKeys } from './areas.ts'
import { type Ask, ask, openAgent, refusal } from './ask.ts'
import { unlicensed } from './vendor.ts'

const P = '/api/v1'
const json = { 'content-type': 'application/json' }
const MISSING_BODY = { json: {} }

const ROUTES: readonly ProbeRoute[] = [
  // {"x":"…"} of exactly the length that the path says.
  {
    method: 'GET',
    path: '/sized/:n',
    answer: ({ params }) => ({ x: 'é'.repeat((Number((params as { n: string }).n) - 8) / 2) }),
  },
  {
    method: 'GET',
    path: '/csv',
    answer: (_request, reply) => reply.type('text/csv; charset=utf-8').send('a,b\r\n'.repeat(1000)),
  },
  {
    method: 'GET',
    path: '/broken',
    answer: () => {
      throw new Error('SELECT secret FROM core_operator_keys')
    },
  },
]

/** One call for every kind of refusal. */
const REFUSALS: [status: number, method: string, url: string, options: Ask][] = [
  [400, 'POST', `${P}/rules`, { headers: json, payload: '{' }],
  [400, 'POST', `${P}/rules`, MISSING_BODY],
  [400, 'GET', `${P}/rules?chain=a&chain=b`, {}],
  [401, 'GET', `${P}/status`, { token: null }],
  [401, 'GET', `${P}/%zz`, { token: null }],
  [403, 'GET', `${P}/status`, { token: TENANT_KEY }],
  [403, 'GET', `${P}/status`, { from: '198.51.100.1' }],
  [404, 'GET', `${P}/nope`, {}],
  [404, 'GET', `${P}/%zz`, {}],
  [404, 'GET', `${P}/rules/${'9'.repeat(500)}`, {}],
  [404, 'GET', `${P}/rules/7`, {}],
  [404, 'PATCH', `${P}/rules`, {}],
  [409, 'POST', `${P}/rules`, { json: { action: 'drop' } }],
  [413, 'POST', `${P}/rules`, { headers: json, payload: 'x'.repeat(1_048_577) }],
  [415, 'POST', `${P}/rules`, { payload: 'x' }],
  [429, 'GET', `${P}/status`, { from: '127.0.0.66' }],
  [500, 'GET', `${P}/broken`, {}],
]

async function refusing(t: Scope): Promise<BuiltAgent> {
  const built = await openAgent(t, {
    extraAreas: [probe('probe', ['/sized'], ROUTES).plugin],
    config: { api_allowed_ips: '127.0.0.0/8', api_auth_fail_limit: '1' },
  })
  built.agent.credentials.keys.set('tk', tenantKeys)
  built.agent.gates.lockout.fail('127.0.0.66')
  return built
}

async function refused({ agent, plane }: BuiltAgent, [status, method, url, options]: (typeof REFUSALS)[number]) {
  if (status === 409) plane.refuse = new KernelRefusal('no room')
  return ask(agent, method, url, options)
}

t.test('conv-04 conv-05 every error is JSON: its status, one key error, one sentence', async (t) => {
  const built = await refusing(t)
  for (const row of REFUSALS) {
    const answer = await refused(built, row)
    const label = `${row[0]} ${row[1]} ${row[2].slice(0, 40)}`
    t.equal(answer.status, row[0], label)
    t.equal(answer.headers['content-type'], 'application/json; charset=utf-8', label)
    t.same(Object.keys(answer.body), ['error'], label)
    t.match(answer.body.error, /^\S[^\r\n]{0,250}$/, label)
  }
})

t.test('D18 every answer has a request id of its own', async (t) => {
  const built = await refusing(t)
  const ids: unknown[] = []
  for (const row of REFUSALS) {
    const { headers } = await refused(built, row)
    t.type(headers['x-request-id'], 'string', `${row[0]} ${row[1]} ${row[2].slice(0, 40)}`)
    ids.push(headers['x-request-id'] ?? ids.length)
  }
  for (const path of ['/health', '/rules'])
    ids.push((await ask(built.agent, 'GET', `${P}${path}`)).headers['x-request-id'])
  t.equal(new Set(ids).size, ids.length)
  const claimed = await ask(built.agent, 'GET', `${P}/health`, {
    headers: { 'x-request-id': 'mine', 'request-id': 'mine' },
  })
  t.not(claimed.headers['x-request-id'], 'mine', 'a caller cannot choose it')
})

t.test('D18 every answer says what is left of the rate', async (t) => {
  const built = await refusing(t)
  for (const row of REFUSALS) {
    const { headers } = await refused(built, row)
    const what = `${row[0]} ${row[1]} ${row[2].slice(0, 40)}`
    for (const name of ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'])
      t.match(headers[name], /^\d+$/, `${name} of ${what}`)
    t.match(headers['ratelimit-policy'], /^"address";q=\d+;w=60;burst=\d+$/, `ratelimit-policy of ${what}`)
  }
})

t.test('conv-06 conv-07 conv-08 conv-13 D18 reads, creations, changes and removals of a rule', async (t) => {
  const { call } = await openAgent(t)
  t.match(await call('GET', `${P}/rules`), { status: 200, text: '{"rules":[]}' })
  const created = await call('POST', `${P}/rules`, { action: 'drop', comment: 'a' })
  t.match(created, { status: 201, body: { status: 'created', rule: { id: Number, action: 'drop' } } })
  const { id } = created.body.rule as { id: number }
  t.match(await call('GET', `${P}/rules/${id}`), { status: 200, body: { id } })
  const replaced = await call('PUT', `${P}/rules/${id}`, { action: 'accept' })
  t.match(replaced, { status: 200, body: { status: 'updated', rule: { id: Number } } })
  const next = (replaced.body.rule as { id: number }).id
  const removed = await call('DELETE', `${P}/rules/${next}`)
  t.same([removed.status, removed.body], [200, { status: 'deleted', id: next }])
  const action = await call('PUT', `${P}/rules/default`, { default_action: 'deny' })
  t.same([action.status, action.body], [200, { status: 'updated', default_action: 'deny' }])
  const batch = await call('POST', `${P}/rules/batch`, {
    rules: Array.from({ length: 300 }, () => ({ action: 'drop' })),
  })
  t.match(batch, { status: 200, body: { status: 'completed', created: 300, failed: 0 } })
  const eventIds = [created, replaced, removed, action, batch].map(({ headers }) => Number(headers['x-event-id']))
  t.same(eventIds, [1, 2, 3, 4, 304], 'X-Event-Id on every mutation')
  for (const query of ['', '?limit=10', '?limit=1&offset=5', '?page=2']) {
    t.equal(((await call('GET', `${P}/rules${query}`)).body.rules as unknown[]).length, 300, `no pagination ${query}`)
  }
})

t.test('conv-13 every change declares a status word and something beside it', async (t) => {
  const { agent } = await openAgent(t)
  let changes = 0
  for (const { method, url, schema } of agent.routes) {
    if (!url.startsWith(P) || ['GET', 'HEAD'].includes(String(method))) continue
    const declared = Object.entries((schema?.response ?? {}) as Record<string, TSchema>)
    const success = declared.find(([code]) => code.startsWith('2'))?.[1] as { properties?: object } | undefined
    const keys = Object.keys(success?.properties ?? {})
    t.ok(keys.includes('status') && keys.length > 1, `${method} ${url}: ${keys}`)
    changes++
  }
  t.ok(changes >= 5)
})

t.test('conv-20 whatever the network can reach lies below /api/v1', async (t) => {
  const { agent } = await openAgent(t)
  for (const { url, method } of agent.routes) {
    t.match(url, /^\/(api|control)\/v1\//)
    if (!url.startsWith('/control/')) continue
    const answer = await ask(agent, String(method), url.replace(/:[a-z]+/g, '1'), MISSING_BODY)
    t.equal(answer.status, 404, `${method} ${url}`)
  }
})

t.test('conv-15 timestamps are RFC 3339 in UTC', async (t) => {
  const { agent, sign, clock, view } = await unlicensed(t)
  await agent.licence.install(sign({ valid_until: '2030-01-31T02:00:00+02:00' }))
  const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
  t.equal((await view()).valid_until, '2030-01-31T00:00:00Z')
  await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop' } })
  const [event] = agent.outbox.after(0, 1)
  t.match(event?.time, UTC)
  t.equal(new Date(event?.time ?? '').getTime(), clock.ms)
})

t.test('err-01 err-03 D15 parameters of a rule: malformed, well-formed without a match, unknown', async (t) => {
  const { agent, call } = await openAgent(t)
  await call('POST', `${P}/rules`, { action: 'drop' })
  for (const chain of ['postrouting', 'PREROUTING', 'x', '%00', '1']) {
    t.same((await call('GET', `${P}/rules?chain=${chain}`)).body, { rules: [] }, chain)
  }
  t.equal(((await call('GET', `${P}/rules?chain=prerouting`)).body.rules as unknown[]).length, 1)
  for (const query of ['chain=a&chain=b', 'chain[]=a&chain=b', `chain=${'x'.repeat(65)}`]) {
    t.equal((await call('GET', `${P}/rules?${query}`)).status, query.startsWith('chain[]') ? 200 : 400, query)
  }
  for (const id of [
    '2',
    '0',
    '-1',
    '01',
    '1.0',
    '1e0',
    '0x1',
    '%31%20',
    'abc',
    '%00',
    '9'.repeat(16),
    '9'.repeat(200),
    'null',
    '1,1',
  ]) {
    for (const [method, body] of [['GET'], ['PUT', { action: 'drop' }], ['DELETE']] as const) {
      const answer = await ask(agent, method, `${P}/rules/${id}`, body === undefined ? {} : { json: body })
      t.equal(answer.status, 404, `${method} ${id}`)
    }
  }
  const unknown = await call('GET', `${P}/rules/abc`)
  t.same(refusal(unknown), [404, 'rule abc not found'], 'the id that was asked for is named')
  t.equal((await call('GET', `${P}/rules/%31`)).status, 200, 'decoded once')
})

t.test('conv-09 conv-10 conv-11 conv-12 D14 JSON of 1 KiB and more is compressed for who asks', async (t) => {
  const { agent } = await openAgent(t, { extraAreas: [probe('probe', ['/sized'], ROUTES).plugin] })
  const get = async (path: string, accept?: string) => {
    const headers: Record<string, string> = {
      authorization: `Bearer ${TOKEN}`,
      ...(accept !== undefined && { 'accept-encoding': accept }),
    }
    return agent.app.inject({ method: 'GET', url: `${P}${path}`, headers })
  }
  for (const [size, compressed] of [
    [1022, false],
    [1024, true],
    [1026, true],
    [100_000, true],
  ] as const) {
    const [plain, packed] = [await get(`/sized/${size}`), await get(`/sized/${size}`, 'gzip')]
    t.equal(Buffer.byteLength(plain.payload), size)
    t.equal(plain.headers['content-encoding'], undefined)
    t.equal(packed.headers['content-encoding'], compressed ? 'gzip' : undefined, `${size}`)
    t.equal(Number(packed.headers['content-length'] ?? packed.rawPayload.length), packed.rawPayload.length)
    const body = compressed ? gunzipSync(packed.rawPayload).toString() : packed.payload
    t.equal(body, plain.payload)
    for (const { headers } of [plain, packed]) t.match(headers.vary, /accept-encoding/i)
  }
  const yes = [
    'gzip',
    'GZIP',
    'deflate, gzip',
    'gzip;q=0.001',
    'gzip; q=1.0, *;q=0',
    'br;q=1 , gzip ; q=0.5',
    'identity;q=0, gzip',
  ]
  const no = ['', 'br', 'deflate', 'identity', '*', 'gzip;q=0', 'gzip; q=0.0', 'gzip;q=0.000', 'gzipx', 'x;gzip']
  for (const accept of yes) t.equal((await get('/sized/2000', accept)).headers['content-encoding'], 'gzip', accept)
  for (const accept of no) t.equal((await get('/sized/2000', accept)).headers['content-encoding'], undefined, accept)
  t.equal((await get('/csv', 'gzip')).headers['content-encoding'], undefined, 'not CSV')
  t.equal((await get('/docs', 'gzip')).headers['content-encoding'], 'gzip')
  t.equal(acceptsGzip(undefined), false)
})

t.test('conv-07 conv-09 conv-12 D13 a long list is whole, compressed or not, and so is HEAD of it', async (t) => {
  const { agent, call } = await openAgent(t)
  const rules = Array.from({ length: 1234 }, (_, i) => ({ action: 'drop', comment: `é ${i}` }))
  t.equal((await call('POST', `${P}/rules/batch`, { rules })).status, 200)
  const url = `${P}/rules`
  const headers = { authorization: `Bearer ${TOKEN}` }
  const plain = await agent.app.inject({ method: 'GET', url, headers })
  const comments = plain.json<{ rules: { comment: string }[] }>().rules.map(({ comment }) => comment)
  t.same(
    comments,
    rules.map(({ comment }) => comment),
  )
  const packed = await agent.app.inject({ method: 'GET', url, headers: { ...headers, 'accept-encoding': 'gzip' } })
  t.equal(packed.headers['content-encoding'], 'gzip')
  t.ok(gunzipSync(packed.rawPayload).equals(plain.rawPayload), 'the same bytes')
  for (const accept of ['gzip', 'identity']) {
    const head = await agent.app.inject({ method: 'HEAD', url, headers: { ...headers, 'accept-encoding': accept } })
    t.same([head.statusCode, head.payload], [200, ''], accept)
    t.match(head.headers, { 'content-type': 'application/json; charset=utf-8', vary: 'accept-encoding' }, accept)
  }
  const lists = Array.from({ length: 8 }, () => call('GET', `${url}?chain=prerouting`))
  await call('DELETE', `${url}/1`)
  for (const { body } of await Promise.all(lists)) {
    const { length } = body.rules as unknown[]
    t.ok(length === 1234 || length === 1233, `${length}: a list is of one moment`)
  }
  t.equal(((await call('GET', url)).body.rules as unknown[]).length, 1233)
})
