/** What a caller relies on is done or refused: headers that promise safety, bytes that are no text, refusals in their order. */
import t from 'tap'
import { buildAgent } from '../../../test/build.ts'
import { ask, UNHURRIED } from '../../../test/rest/ask.ts'

const P = '/api/v1'

t.test(
  'a header that promises a trial or a way back is refused on every route, before anything is changed',
  async (t) => {
    const { agent, call } = await buildAgent(t, { config: UNHURRIED })
    const before = agent.outbox.bounds().latest
    const promises: [headers: Record<string, string>, query: string, error: RegExp][] = [
      [{ 'X-Confirm-Within': '2' }, '', /^X-Confirm-Within is not implemented: .*; leave it out$/],
      [{ 'X-Dry-Run': '1' }, '', /^X-Dry-Run is not implemented/],
      [{ 'Idempotency-Key': 'a' }, '', /^Idempotency-Key is not implemented/],
      [{}, '?dry_run=true', /^dry_run is not implemented/],
      [{}, '?dry_run', /^dry_run is not implemented/],
    ]
    for (const { method, url } of agent.routes) {
      const verb = [method].flat()[0] ?? ''
      if (verb === 'HEAD' || url.startsWith('/control')) continue
      const path = url.replace(/:\w+/g, '1')
      // What is off on this node is off with or without them.
      if (agent.states.offAt(path.slice(P.length)) !== undefined) continue
      for (const [headers, query, error] of promises) {
        const answer = await call(verb, `${path}${query}`, undefined, headers)
        if (answer.status !== 501) t.fail(`${verb} ${path}${query} ${JSON.stringify(headers)}: ${answer.status}`)
        else if (!error.test(String(answer.body.error))) t.fail(answer.text)
      }
    }
    const made = await call('POST', `${P}/rules`, { action: 'drop', dest_port: 9 }, { 'X-Confirm-Within': '2' })
    t.equal(made.status, 501)
    t.same((await call('GET', `${P}/rules`)).body.rules, [])
    t.equal(agent.outbox.bounds().latest, before)
  },
)

t.test('conv-03 bytes that are no UTF-8 are refused, in a body, a query and a path', async (t) => {
  const { agent, call } = await buildAgent(t, { config: UNHURRIED })
  const headers = { 'content-type': 'application/json' }
  const body = (hex: string) =>
    Buffer.concat([Buffer.from('{"action":"drop","comment":"'), Buffer.from(hex, 'hex'), Buffer.from('"}')])
  for (const hex of ['ff', 'c3', 'c0af', 'eda080', 'f8888080', 'f4908080']) {
    const answer = await ask(agent, 'POST', `${P}/rules`, { headers, payload: body(hex) })
    t.same([answer.status, answer.body.error], [400, 'body is not valid UTF-8'], hex)
  }
  const fine = await ask(agent, 'POST', `${P}/rules`, { headers, payload: body('c3bc') })
  t.match(fine, { status: 201, body: { rule: { comment: 'ü' } } })
  for (const path of ['/rules?interface=%ff', '/rules?x=%c3', '/rules?x=%zz']) {
    t.equal((await call('GET', `${P}${path}`)).status, 400, path)
  }
  for (const path of ['/rules/%ff', '/bridges/%c3%28']) {
    t.equal((await call('DELETE', `${P}${path}`)).status, 404, `${path} names nothing`)
  }
  t.equal((await call('GET', `${P}/rules?x=%c3%bc`)).status, 200)
  t.equal((await call('GET', `${P}/bridges/%c3%bc`)).status, 404, 'a name like any other')
  t.equal(((await call('GET', `${P}/rules`)).body.rules as unknown[]).length, 1)
})

t.test('conv-01 clustering that is off is said before what the body lacks', async (t) => {
  const { call } = await buildAgent(t, { config: UNHURRIED })
  for (const body of [{}, { node_id: 'n2', address: '192.0.2.1' }, { node_id: 1 }]) {
    t.match(await call('POST', `${P}/cluster/join`, body), {
      status: 503,
      body: { error: 'cluster service not available' },
    })
  }
})

t.test('bw-02 a limit that only joins a pool needs no rate; one without either says what it needs', async (t) => {
  const { call } = await buildAgent(t, { config: UNHURRIED })
  const limit = { id: 'l', target_mac: '02:00:00:00:00:03' }
  const refused = await call('POST', `${P}/bandwidth`, limit)
  t.same(
    [refused.status, refused.body.error],
    [400, 'rate_bps is required, unless pool_id names a pool: then the limit is what the pool has'],
  )
  t.ok((await call('POST', `${P}/bandwidth/pools`, { id: 'p', total_bps: 10_000_000 })).status < 300)
  t.ok((await call('POST', `${P}/bandwidth`, { ...limit, pool_id: 'p' })).status < 300)
})

t.test('node-05 the index gives the status that a route answers: 501 where it can only refuse', async (t) => {
  const { call } = await buildAgent(t)
  const { endpoints } = (await call('GET', `${P}/docs`)).body as {
    endpoints: { method: string; path: string; success: number }[]
  }
  const success = (method: string, path: string) =>
    endpoints.find((it) => it.method === method && it.path === `${P}${path}`)?.success
  t.equal(success('PUT', '/lb/{id}'), 501)
  t.equal(success('PUT', '/dns/records/{id}'), 501)
  t.equal(success('POST', '/vlan'), 201)
  t.equal(success('GET', '/rules'), 200)
})
