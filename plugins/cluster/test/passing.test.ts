/** Calls that a member passes on to another, through its door. */
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import { encodePassed } from '../../../core/transport/elsewhere.ts'
import { listenRest } from '../../../core/transport/listener.ts'
import { TOKEN } from '../../../test/build.ts'
import { eventually } from '../../../test/cluster.ts'
import { caller } from './caller.ts'
import { call, knock, mesh, type Raw } from './mesh.ts'

const P = '/api/v1'
const OPERATOR = encodePassed({ address: '192.0.2.1', caller: { kind: 'operator', label: 'x' }, requestId: 'r-1' })

/** What the caller sees, without what differs from call to call. */
function seen({ status, headers, bytes }: Raw): object {
  const { date: _date, 'x-request-id': _id, connection: _connection, ...rest } = headers
  for (const name of ['ratelimit-remaining', 'ratelimit-reset', 'keep-alive', 'transfer-encoding']) delete rest[name]
  return { status, headers: rest, text: bytes.toString('latin1') }
}

t.test('D102 an answer comes back as the member named gives it', async (t) => {
  const { b, pass, counts } = await mesh(t)
  const rule = (n: number) => JSON.stringify({ action: 'drop', source_ip: `192.0.2.${n}` })
  const created = await pass('POST', `${P}/rules`, { body: rule(1), headers: { 'x-request-id': 'mine' } })
  t.equal(created.status, 201, created.text)
  t.match(created.headers, { 'x-event-id': /^[0-9]+$/, 'x-request-id': /./, 'ratelimit-limit': '100' })
  const [event] = b.agent.outbox.after(0, 10).filter(({ type }) => type === 'rule.created')
  t.match(event, { actor: { kind: 'token', label: 'node' }, request_id: created.headers['x-request-id'] })
  const id = (created.body.rule as { id: number }).id

  const asked: [string, string, Parameters<typeof pass>[2]?][] = [
    ['GET', `${P}/rules/${id}`],
    ['HEAD', `${P}/rules/${id}`],
    ['GET', `${P}/rules/999`],
    ['GET', `${P}/nothing/of/the/kind`],
    ['GET', `${P}/tls/pubkey`],
    ['PATCH', `${P}/rules/1`],
    ['POST', `${P}/rules`, { body: '{"action":' }],
    ['POST', `${P}/rules`, { body: '{"action":"drop","x":1,"source_ip":"nonsense"}' }],
    ['POST', `${P}/rules`, { body: 'x', headers: { 'content-type': 'text/plain' } }],
    ['DELETE', `${P}/rules/999`, { body: '{"ignored":true}' }],
    ['PUT', `${P}/rules/${id}`, { body: rule(2), headers: { 'if-match': '"other"' } }],
    ['GET', `${P}/docs?format=openapi`, { headers: { 'accept-encoding': 'gzip' } }],
    ['GET', `${P}/docs?format=openapi`],
  ]
  for (const [method, path, options] of asked) {
    const there = await call(b, method, path, options)
    t.same(seen(await pass(method, path, options)), seen(there), `${method} ${path}`)
  }
  const { headers } = await pass('GET', `${P}/rules/${id}`)
  t.ok(headers.etag)
  const unchanged = await pass('GET', `${P}/rules/${id}`, { headers: { 'if-none-match': String(headers.etag) } })
  t.same([unchanged.status, unchanged.text], [304, ''])
  const changed = await pass('PUT', `${P}/rules/${id}`, {
    body: rule(3),
    headers: { 'if-match': String(headers.etag) },
  })
  t.equal(changed.status, 200, changed.text)
  t.equal((await pass('POST', `${P}/rules`, { body: `{"action":"${'x'.repeat(2 << 20)}"}` })).status, 413)
  t.ok(counts.answered > 15)
  t.equal(counts.unreachable, 0)
})

t.test('D102 long lists come in pieces, and compressed as the member compresses them', async (t) => {
  const { b, pass } = await mesh(t)
  const rules = Array.from({ length: 1000 }, (_, n) => ({ action: 'drop', source_ip: `10.0.${n >> 8}.${n & 255}` }))
  t.equal((await pass('POST', `${P}/rules/batch`, { body: JSON.stringify({ rules }) })).status, 200)
  for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
    const got = await pass('GET', `${P}/rules`, { headers })
    t.ok(got.bytes.length > 5000)
    t.same(seen(got), seen(await call(b, 'GET', `${P}/rules`, { headers })))
  }
})

t.test('auth-19 auth-20 the member named judges the address of the caller by its own list', async (t) => {
  const { a, b, pass } = await mesh(t, { b: { config: { api_allowed_ips: '192.0.2.0/24' } } })
  const refused = await pass('GET', `${P}/rules`, { from: '198.51.100.1' })
  t.same([refused.status, refused.body], [403, { error: 'forbidden: source address not allowed' }])
  t.same(seen(refused), seen(await call(b, 'GET', `${P}/rules`, { from: '198.51.100.1' })), 'as it answers it itself')
  t.equal(
    (await pass('GET', `${P}/rules`, { from: '192.0.2.7' })).status,
    200,
    'though the member called is not on the list',
  )
  t.equal((await pass('GET', `${P}/rules`, { from: '::ffff:192.0.2.7' })).status, 200)
  t.equal((await call(a, 'GET', `${P}/rules`, { from: '198.51.100.1' })).status, 200, 'the member called has no list')
})

t.test('auth-19 the list of the member called comes first', async (t) => {
  const { pass, counts } = await mesh(t, { a: { config: { api_allowed_ips: '192.0.2.0/24' } } })
  t.equal((await pass('GET', `${P}/rules`, { from: '198.51.100.1' })).status, 403)
  t.equal(counts.answered, 0)
  t.equal((await pass('GET', `${P}/rules`, { from: '192.0.2.1' })).status, 200)
})

t.test('D102 lockout, rate and credential are those of the member called', async (t) => {
  const limits = { api_auth_fail_limit: '2', api_rate_burst: '3', api_rate_limit: '1' }
  const { b, pass, counts } = await mesh(t, { a: { config: limits }, b: { config: { api_rate_burst: '1' } } })
  const wrong = { authorization: 'Bearer wrong' }
  for (const status of [401, 401, 429]) {
    t.equal((await pass('GET', `${P}/rules`, { from: '192.0.2.1', headers: wrong })).status, status)
  }
  t.same([counts.answered, b.agent.gates.lockout.blocks()], [0, []], 'nothing of it was passed on')
  for (const status of [200, 200, 200, 429]) {
    const { headers, ...got } = await pass('GET', `${P}/rules`, { from: '192.0.2.2' })
    t.equal(got.status, status)
    t.equal(headers['ratelimit-limit'], '3', 'what is left is what is left here')
  }
})

t.test('D102 the plan and the licence are those of the member named', async (t) => {
  const { a, pass } = await mesh(t, { b: { licensed: false } })
  const got = await pass('GET', `${P}/networks`)
  t.same([got.status, got.body.error], [403, 'no license installed: Private Networks requires a license'])
  t.equal((await call(a, 'GET', `${P}/networks`)).status, 200)
})

t.test('D40 D102 the key of a tenant opens what is its own at another member too, and no more', async (t) => {
  const { a, b, pass } = await mesh(t)
  caller(a, { kind: 'tenant', label: 'k1', tenantId: 'ten-1' })
  const headers = { authorization: 'Bearer xx_k1_secret' }
  const own = await pass('GET', `${P}/tenant/ten-1`, { headers })
  t.same([own.status, own.body.error], [404, 'tenant ten-1 not found'], 'judged by what the member named has')
  for (const [method, path] of [
    ['GET', '/tenant/ten-2'],
    ['GET', '/rules'],
    ['DELETE', '/tenant/ten-1'],
  ] as const) {
    t.equal((await pass(method, P + path, { headers })).status, 403, `${method} ${path}`)
  }
  t.equal(
    (await call(b, 'GET', `${P}/tenant/ten-1`, { headers })).status,
    401,
    'the key is known to the member called alone',
  )
  caller(a, { kind: 'tenant', label: 'k1', tenantId: 'ten-1', suspended: true })
  const changed = await pass('POST', `${P}/tenant/ten-1/keys`, { body: '{"label":"x"}', headers })
  t.same([changed.status, changed.body.error], [403, 'tenant suspended'])
})

t.test('D102 a public path needs no credential there either, all others do', async (t) => {
  const { pass } = await mesh(t)
  const headers = { authorization: '' }
  t.equal((await pass('GET', `${P}/health`, { headers })).status, 200)
  t.equal((await pass('GET', `${P}/rules`, { headers })).status, 401)
})

t.test('D102 a name that no member has is refused, and is not repeated anywhere', async (t) => {
  const { a, pass, counts } = await mesh(t)
  const names = [
    'n3',
    'N2',
    ' ',
    'n2, n2',
    'n2,',
    'n1\\nx',
    '../n2',
    '127.0.0.1',
    '$(x)',
    '\u00e9vil-name',
    '__proto__',
    'n'.repeat(4000),
  ]
  for (const name of names) {
    const { status, body } = await pass('GET', `${P}/rules`, { headers: { 'x-node': name } })
    t.same([status, body], [404, { error: 'X-Node: no member of the cluster has this name' }], name.slice(0, 20))
  }
  t.notMatch(JSON.stringify(a.logged), /vil-name|\$\(x\)|nnnnnn/)
  t.equal(counts.answered, 0)
  t.equal((await pass('GET', `${P}/rules`, { headers: { 'x-node': 'n3', authorization: 'Bearer wrong' } })).status, 401)
})

t.test('D102 a node that is named to itself answers itself, and what is no path of the API is its own', async (t) => {
  const { a, b, pass, counts } = await mesh(t)
  const created = await pass('POST', `${P}/rules`, {
    body: '{"action":"drop","source_ip":"192.0.2.1"}',
    headers: { 'x-node': 'n1' },
  })
  t.equal(created.status, 201)
  const rules = async (one: typeof a) => ((await call(one, 'GET', `${P}/rules`)).body.rules as unknown[]).length
  t.same([await rules(a), await rules(b), counts.answered], [1, 0, 0])
  t.equal((await pass('GET', '/elsewhere')).status, 404)
  t.equal(counts.answered, 0)
})

t.test('D102 what was passed on is never passed on again', async (t) => {
  const { b, port, own: trust } = await mesh(t)
  let asked = 0
  b.agent.elsewhere.peers.clear()
  b.agent.elsewhere.peers.add({
    self: () => 'n2',
    has: () => true,
    pass: async () => {
      asked++
      throw new Error('passed on')
    },
  })
  const headers = { 'x-stratum-caller': OPERATOR, 'x-node': 'n1' }
  const got = await knock(port, `/pass${P}/rules`, { trust, headers })
  t.same([got.status, JSON.parse(got.text), asked], [200, { rules: [] }, 0])
})

t.test(
  'D102 a caller that is slow with its body, or asks much at once, holds no connection between members',
  async (t) => {
    const { a, own } = await mesh(t)
    const api = await listenRest((request, response) => a.agent.app.routing(request, response), {
      ...{ address: '127.0.0.1', port: 0, cert: own.certificate, key: own.key },
    })
    t.teardown(() => api.close(0))
    const asked: string[] = []
    const [peers] = a.agent.elsewhere.peers
    a.agent.elsewhere.peers.clear()
    a.agent.elsewhere.peers.add({
      self: () => 'n1',
      has: () => true,
      pass: async (_node, call, signal) => {
        asked.push(call.url)
        if (call.url.endsWith('/health') && peers) return peers.pass('n2', call, signal)
        await once(signal, 'abort')
        throw new Error('nobody waits any more')
      },
    })
    const begin = (rest: string) => {
      const socket = connectTls({
        ...{ port: Number(api.where.split(':').at(-1)), host: '127.0.0.1', rejectUnauthorized: false },
      })
      socket.write(`POST ${P}/rules HTTP/1.1\r\nhost: n1\r\nx-node: n2\r\nauthorization: Bearer ${TOKEN}\r\n${rest}`)
      return socket
    }
    const slow = begin('content-length: 10\r\n\r\n12345')
    const quick = Array.from({ length: 31 }, () => begin('content-length: 0\r\n\r\n'))
    await eventually('all but one are passed on', () => asked.length === 31)
    t.match(
      await text(begin('content-length: 0\r\nconnection: close\r\n\r\n')),
      /^HTTP\/1.1 429 [\s\S]*too many calls for other members/,
    )
    slow.write('67890')
    await eventually('the slow one is', () => asked.length === 32)
    for (const socket of [slow, ...quick]) socket.destroy()
    await eventually('there is room again', async () => {
      const socket = connectTls({
        port: Number(api.where.split(':').at(-1)),
        host: '127.0.0.1',
        rejectUnauthorized: false,
      })
      socket.write(
        `GET ${P}/health HTTP/1.1\r\nhost: n1\r\nx-node: n2\r\nauthorization: Bearer ${TOKEN}\r\nconnection: close\r\n\r\n`,
      )
      return (await text(socket)).startsWith('HTTP/1.1 200 ')
    })
  },
)

t.test('D102 a member that cannot be reached is a 503 that says so', async (t) => {
  const { door, pass, counts } = await mesh(t)
  t.equal((await pass('GET', `${P}/rules`)).status, 200)
  await door.close(0)
  const error = 'cluster service not available: member n2 does not answer'
  for (const method of ['GET', 'POST']) {
    const got = await pass(method, `${P}/rules`, method === 'POST' ? { body: '{}' } : {})
    t.same([got.status, got.body], [503, { error }])
  }
  t.equal(counts.unreachable, 2)
})

t.test('D102 a member that falls silent over a change is a 503 that says what may be', async (t) => {
  const { b, pass, setOnline } = await mesh(t)
  const { apply } = b.plane
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const reached = new Promise<void>((resolve) => {
    b.plane.apply = async (diff) => {
      resolve()
      await held
      return apply(diff)
    }
  })
  const passing = pass('POST', `${P}/rules`, { body: '{"action":"drop","source_ip":"192.0.2.1"}' })
  await reached
  setOnline(false)
  const { status, body } = await passing
  const error = 'cluster service not available: member n2 does not answer; what was asked may have been done'
  t.same([status, body], [503, { error }])
  release()
})
