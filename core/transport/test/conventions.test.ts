/** What holds for every route: media types, bodies, paths, methods, compression, headers. */
import t from 'tap'
import { Type } from 'typebox'
import type { BuiltAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { type Hit, type ProbeRoute, probe } from '../../../test/rest/areas.ts'
import { ask, openAgent, refusal } from '../../../test/rest/ask.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'

const P = '/api/v1'
const MIB = 1_048_576
const MEDIA = [415, 'Content-Type must be application/json']
const json = { 'content-type': 'application/json' }

const ROUTES: readonly ProbeRoute[] = [
  {
    method: 'POST',
    path: '/optional',
    body: Type.Object({
      note: Type.Optional(Type.String()),
      count: Type.Optional(Type.Integer()),
      flag: Type.Optional(Type.Boolean()),
      list: Type.Optional(Type.Array(Type.String())),
      inner: Type.Optional(Type.Object({ a: Type.Integer() })),
    }),
    answer: ({ body }) => ({ status: 'updated', body }),
  },
  { method: 'POST', path: '/required', body: Type.Object({ name: Type.String(), size: Type.Integer() }) },
  { method: 'POST', path: '/strict', strict: true, body: Type.Object({ name: Type.Optional(Type.String()) }) },
  { method: 'POST', path: '/bare' },
  { method: 'GET', path: '/things/:id', answer: ({ params }) => params },
  { method: 'DELETE', path: '/things/:id', answer: ({ params }) => ({ status: 'deleted', ...(params as object) }) },
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
]

async function open(t: Scope): Promise<BuiltAgent & { hits: Hit[] }> {
  const { plugin, hits } = probe('probe', ['/optional', '/required'], ROUTES)
  return { ...(await openAgent(t, { extraAreas: [plugin] })), hits }
}

/** Every route below /api/v1 that takes a body. */
const bodied = ({ agent }: BuiltAgent) =>
  agent.routes
    .filter(({ url, method }) => url.startsWith(P) && ['POST', 'PUT'].includes(String(method)))
    .map(({ url, method }) => ({ method: String(method), url: url.replace(/:[a-z]+/g, '1') }))

t.test('conv-01 err-06 a body of another media type is a 415 on every route that takes one', async (t) => {
  const built = await open(t)
  const before = snapshot(built)
  const others = [
    undefined,
    '',
    'text/plain',
    'text/json',
    'application/jsonx',
    'application/json-patch+json',
    'application/vnd.api+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/octet-stream',
    'application/*',
    'json',
    'application /json',
    'text/plain, application/json',
    'text/plain; a=application/json',
  ]
  for (const { method, url } of bodied(built)) {
    for (const type of others) {
      const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
      t.same(
        refusal(await ask(built.agent, method, url, { headers, payload: Buffer.from('{}') })),
        MEDIA,
        `${url} ${type}`,
      )
    }
  }
  t.same(built.hits, [])
  t.same(snapshot(built), before)
})

t.test('conv-02 parameters and case of application/json do not matter', async (t) => {
  const { agent } = await open(t)
  const types = [
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'Application/JSON',
    'application/json ; x=y',
  ]
  for (const type of types) {
    const { status } = await ask(agent, 'POST', `${P}/optional`, { headers: { 'content-type': type }, payload: '{}' })
    t.equal(status, 200, type)
  }
})

t.test('conv-03 D11 no body is an empty object where nothing is required, else names what is missing', async (t) => {
  const { agent } = await open(t)
  for (const [headers, payload] of [[{}], [json], [json, ''], [json, ' \r\n'], [json, '{}']] as const) {
    const options = { headers, ...(payload !== undefined && { payload }) }
    const label = JSON.stringify([headers, payload])
    t.match(await ask(agent, 'POST', `${P}/optional`, options), { status: 200, body: { body: {} } }, label)
    t.same(refusal(await ask(agent, 'POST', `${P}/required`, options)), [400, 'name is required'], label)
    t.same(refusal(await ask(agent, 'POST', `${P}/rules`, options)), [400, 'action is required'], label)
    t.equal((await ask(agent, 'POST', `${P}/bare`, options)).status, 200, label)
  }
})

t.test('D12 the media type matters only where there is a body', async (t) => {
  const { agent } = await open(t)
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'nonsense']) {
    for (const length of [{}, { 'content-length': '0' }]) {
      const headers: Record<string, string> = { 'content-type': type, ...length }
      t.equal((await ask(agent, 'POST', `${P}/optional`, { headers })).status, 200, `${type} ${JSON.stringify(length)}`)
    }
  }
  for (const method of ['GET', 'DELETE', 'HEAD']) {
    for (const payload of ['x', '{', '{"a":1,"a":2}', 'x'.repeat(2 * MIB)]) {
      for (const type of ['text/plain', 'application/json']) {
        const answer = await ask(agent, method, `${P}/things/7`, { headers: { 'content-type': type }, payload })
        t.equal(answer.status, 200, `${method} with ${payload.slice(0, 10)} as ${type}`)
      }
    }
  }
})

t.test('D10 unknown keys are ignored and named, or refused where the route is strict', async (t) => {
  const { agent } = await open(t)
  const ignored = async (url: string, value: unknown) => {
    const { status, headers } = await ask(agent, 'POST', `${P}${url}`, { json: value })
    return [status, headers['x-ignored-fields']]
  }
  t.same(await ignored('/optional', { note: 'a' }), [200, undefined])
  t.same(await ignored('/optional', { note: 'a', nope: 1, other: null }), [200, 'nope,other'])
  t.same(await ignored('/optional', { Note: 'a' }), [200, 'Note'], 'keys are case-sensitive')
  t.same(await ignored('/optional', JSON.parse('{"__proto__":{"x":1},"constructor":1}')), [
    200,
    '__proto__,constructor',
  ])
  const [status, list] = await ignored('/optional', { 'a,b': 1, 'c\r\nSet-Cookie: x': 2, 'é€': 3, '': 4 })
  t.equal(status, 200)
  t.match(list, /^[\x20-\x7e]*$/, 'nothing that could end a header')
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`k${i}${'x'.repeat(100)}`, i]))
  const [, long] = await ignored('/optional', many)
  t.ok(String(long).length < 4096, `${String(long).length} characters at most`)
  t.same(refusal(await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop', nope: 1 } })), [
    400,
    'unrecognised key: nope',
  ])
})

t.test('D10 config.strict alone makes an unknown key a 400', async (t) => {
  const { agent } = await open(t)
  t.same(refusal(await ask(agent, 'POST', `${P}/strict`, { json: { nope: 1 } })), [400, 'unrecognised key: nope'])
})

t.test('D10 a route that takes no fields names them all as ignored', async (t) => {
  const { agent } = await open(t)
  const { status, headers } = await ask(agent, 'POST', `${P}/bare`, { json: { typo: 1 } })
  t.same([status, headers['x-ignored-fields']], [200, 'typo'])
})

t.test('conv-17 conv-18 conv-21 malformed, not an object, of a wrong type', async (t) => {
  const { agent } = await open(t)
  for (const payload of ['{', '{"a":1}}', '{"note":"a","note":"b"}', '\ufeff{}', '{"note":"\u0000"}', '{"note":NaN}']) {
    t.equal((await ask(agent, 'POST', `${P}/optional`, { headers: json, payload })).status, 400, payload)
  }
  for (const payload of ['[]', '"x"', '1', 'true', '[{}]', 'null']) {
    for (const url of ['/optional', '/required', '/rules']) {
      const answer = await ask(agent, 'POST', `${P}${url}`, { headers: json, payload })
      t.same(refusal(answer), [400, 'body: must be an object'], `${url} ${payload}`)
    }
  }
  const wrong = {
    note: [1, true, null, [], {}],
    count: ['1', 1.5, true, null, [1], ''],
    flag: ['true', 0, 1, null, []],
    list: ['a', { 0: 'a' }, null, [1]],
    inner: ['{}', [], null, { a: '1' }],
  }
  for (const [key, values] of Object.entries(wrong)) {
    for (const value of values) {
      const answer = await ask(agent, 'POST', `${P}/optional`, { json: { [key]: value } })
      t.equal(answer.status, 400, `${key}: ${JSON.stringify(value)}`)
      t.match(answer.body.error, new RegExp(`^${key}`), `${key}: ${JSON.stringify(value)}`)
    }
  }
})

t.test('conv-16 err-05 exactly 1 MiB passes, one byte more is a 413 on every route that takes a body', async (t) => {
  const built = await open(t)
  const exact = `{"note":"${'x'.repeat(MIB - 11)}"}`
  t.equal(Buffer.byteLength(exact), MIB)
  t.equal((await ask(built.agent, 'POST', `${P}/optional`, { headers: json, payload: exact })).status, 200)
  const before = snapshot(built)
  for (const { method, url } of bodied(built)) {
    for (const payload of [`${exact} `, Buffer.alloc(3 * MIB, 0x20)]) {
      t.same(refusal(await ask(built.agent, method, url, { headers: json, payload })), [413, 'body over 1 MiB'], url)
    }
  }
  t.same(snapshot(built), before)
})

t.test('conv-19 D13 methods and paths that do not exist are 404 with an error body', async (t) => {
  const { agent } = await open(t)
  const calls: [string, string][] = [
    ...['PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'PURGE'].map((method): [string, string] => [method, '/status']),
    ...['POST', 'PUT', 'DELETE'].map((method): [string, string] => [method, '/status']),
    ['PUT', '/rules'],
    ['DELETE', '/rules'],
    ['POST', '/rules/1'],
    ['GET', '/rules/batch/1'],
    ['GET', '/Status'],
    ['GET', '/STATUS'],
    ['GET', '/status/x'],
    ['GET', '/status//'],
    ['GET', '//status'],
    ['GET', '/./status%00'],
    ['GET', '/status;x=1'],
    ['GET', '/statu'],
    ['GET', ''],
    ['GET', '/'],
  ]
  for (const [method, path] of calls) {
    t.same(
      refusal(await ask(agent, method, `${P}${path}`, { headers: { origin: 'https://x' } })),
      [404, 'no such path'],
      `${method} ${path}`,
    )
  }
  for (const path of ['/', '/api', '/api/v1', '/api/v2/status', '/API/v1/status', '/control/v1/token', '/status']) {
    t.equal((await ask(agent, 'GET', path)).status, 404, path)
  }
})

t.test('D13 trailing slash, one decoding, HEAD as GET, no CORS', async (t) => {
  const { agent, hits } = await open(t)
  for (const path of ['/status/', '/health/', '/rules/', '/rules/default/', '/rules?chain=prerouting', '/rules/?x']) {
    t.equal((await ask(agent, 'GET', `${P}${path}`)).status, 200, path)
  }
  const decoded = { 'a%20b': 'a b', 'a%2Fb': 'a/b', '%2561': '%61', 'a+b': 'a+b', '%C3%A9': 'é', 'a%3Fb': 'a?b' }
  for (const [raw, id] of Object.entries(decoded)) {
    t.same((await ask(agent, 'GET', `${P}/things/${raw}`)).body, { id }, raw)
  }
  for (const path of ['/status', '/docs', '/rules', '/sized/2000', '/csv', '/nope']) {
    const headers = { 'accept-encoding': 'gzip', origin: 'https://elsewhere.example' }
    const [get, head] = [
      await ask(agent, 'GET', `${P}${path}`, { headers }),
      await ask(agent, 'HEAD', `${P}${path}`, { headers }),
    ]
    t.same([head.status, head.text], [get.status, ''], path)
    for (const name of ['content-type', 'content-length', 'content-encoding', 'vary']) {
      t.equal(String(head.headers[name]), String(get.headers[name]), `${path} ${name}`)
    }
    t.notOk(
      Object.keys(get.headers).some((name) => name.startsWith('access-control')),
      path,
    )
  }
  t.ok(hits.length > 0)
})
