/** D18: what a client has read has a name, and a change that names another state is refused (RFC 9110 §8.8.3, §13). */
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { sendOne } from '../../core/transport/etag.ts'
import { type Answer, type BuiltAgent, TOKEN } from '../build.ts'
import { probe } from './areas.ts'
import { ask, openAgent, refusal } from './ask.ts'
import { snapshot } from './snapshot.ts'

const P = '/api/v1'
const DEFAULT = `${P}/rules/default`
const STRONG = /^"[0-9a-f]{32}"$/
const OTHER = `"${'0'.repeat(32)}"`
const CHANGED = (path: string) => [412, `precondition failed: ${path} changed since it was read`]
const MALFORMED = [400, 'If-Match: must be * or a list of entity tags, each in double quotes']

const etag = ({ headers }: Answer): string => String(headers.etag)

async function withRule(t: Parameters<typeof openAgent>[0]) {
  const built = await openAgent(t)
  const put = (path: string, json: object, headers: Record<string, string>) =>
    ask(built.agent, 'PUT', path, { json, headers })
  const created = await built.call('POST', `${P}/rules`, { action: 'drop', comment: 'first' })
  const path = `${P}/rules/${(created.body.rule as { id: number }).id}`
  return { ...built, put, path, tag: etag(await built.call('GET', path)) }
}

const latest = ({ agent }: BuiltAgent) => agent.outbox.bounds().latest

t.test(
  'D18 a single thing is answered with a strong ETag of its content; lists and live values have none',
  async (t) => {
    const built = await withRule(t)
    const { agent, call, put, path, tag } = built
    t.match(tag, STRONG)
    t.equal(etag(await call('GET', path)), tag, 'the same again')
    t.equal(etag(await ask(agent, 'HEAD', path)), tag)
    for (const one of [DEFAULT, `${P}/license`]) t.match(etag(await call('GET', one)), STRONG, one)
    for (const many of ['/rules', '/health', '/status', '/docs', '/rules/99']) {
      t.notOk((await call('GET', `${P}${many}`)).headers.etag, many)
    }
    const allow = etag(await call('GET', DEFAULT))
    t.equal((await put(DEFAULT, { default_action: 'deny' }, {})).status, 200)
    const deny = etag(await call('GET', DEFAULT))
    t.not(deny, allow)
    await put(DEFAULT, { default_action: 'allow' }, {})
    t.equal(etag(await call('GET', DEFAULT)), allow, 'the tag names the content')
    const elsewhere = await openAgent(t)
    t.equal(etag(await elsewhere.call('GET', DEFAULT)), allow, 'and outlives the agent')
  },
)

t.test(
  'D18 If-Match with what was read lets the change pass; with anything else 412, and nothing is changed',
  async (t) => {
    const built = await withRule(t)
    const { agent, call, put, path, tag } = built
    const before = snapshot(built)
    const [events, shown] = [latest(built), await call('GET', path)]
    for (const wrong of [
      OTHER,
      `W/${tag}`,
      `"${tag.slice(1, 9)}"`,
      `${OTHER}, W/${tag}`,
      '""',
      '"a,b"',
      `"W/${tag.slice(1)}`,
    ]) {
      for (const method of ['PUT', 'DELETE']) {
        const options = { headers: { 'if-match': wrong }, ...(method === 'PUT' && { json: { action: 'accept' } }) }
        const answer = await ask(agent, method, path, options)
        t.same(refusal(answer), CHANGED(path), `${method} ${wrong}`)
        t.notOk(answer.headers['x-event-id'])
      }
      t.same(refusal(await put(DEFAULT, { default_action: 'deny' }, { 'if-match': wrong })), CHANGED(DEFAULT), wrong)
    }
    t.same(snapshot(built), before)
    t.same(latest(built), events)
    t.same((await call('GET', path)).body, shown.body)

    for (const right of [tag, '*', ` ${tag} `, `${OTHER},${tag}`, `, ,\t${tag} ,`, `W/"x", "a,b", ${tag}`]) {
      const again = await call('POST', `${P}/rules`, { action: 'drop', comment: 'first' })
      const own = `${P}/rules/${(again.body.rule as { id: number }).id}`
      const named = right.replace(tag, etag(await call('GET', own)))
      const replaced = await put(own, { action: 'accept' }, { 'if-match': named })
      t.match(replaced, { status: 200, body: { rule: { action: 'accept' } } }, right)
      const next = `${P}/rules/${(replaced.body.rule as { id: number }).id}`
      const last = right.replace(tag, etag(await call('GET', next)))
      t.equal((await ask(agent, 'DELETE', next, { headers: { 'if-match': last } })).status, 200, right)
    }
  },
)

t.test('D18 of two clients that read the same state only one changes it, however close they come', async (t) => {
  const { agent, call, put, path } = await withRule(t)
  for (let round = 0; round < 20; round++) {
    const tag = etag(await call('GET', DEFAULT))
    const wanted = round % 2 === 0 ? 'deny' : 'allow'
    const both = await Promise.all([1, 2].map(() => put(DEFAULT, { default_action: wanted }, { 'if-match': tag })))
    t.same(both.map(({ status }) => status).sort(), [200, 412])
  }
  const tag = etag(await call('GET', path))
  const one = await Promise.all([
    put(path, { action: 'accept' }, { 'if-match': tag }),
    ask(agent, 'DELETE', path, { headers: { 'if-match': tag } }),
  ])
  t.same(one.map(({ status }) => status).sort(), [200, 404], 'the second finds no such rule any more')
})

t.test('D18 If-Match: * needs the thing to be; what is not there is 404 as ever', async (t) => {
  const { agent, put, path, tag } = await withRule(t)
  for (const value of ['*', tag]) {
    t.equal((await put(`${P}/rules/77`, { action: 'drop' }, { 'if-match': value })).status, 404)
    t.equal((await ask(agent, 'DELETE', `${P}/rules/77`, { headers: { 'if-match': value } })).status, 404)
  }
  t.equal((await put(path, { action: 'accept' }, { 'if-match': '*' })).status, 200)
})

t.test('D18 err-01 an If-Match that cannot be read is a 400, and nothing is changed', async (t) => {
  const built = await withRule(t)
  const { agent, put, path, tag } = built
  const before = snapshot(built)
  const bare = tag.slice(1, -1)
  for (const broken of [
    '',
    ' ',
    ',',
    bare,
    `"${bare}`,
    `${bare}"`,
    `w/${tag}`,
    `W/ ${tag}`,
    `${tag} ${tag}`,
    `*, ${tag}`,
    `${tag}, *`,
    '**',
    `"a b"`,
    "'a'",
    `${tag};q=1`,
  ]) {
    t.same(refusal(await put(path, { action: 'accept' }, { 'if-match': broken })), MALFORMED, JSON.stringify(broken))
    t.same(
      refusal(await ask(agent, 'GET', path, { headers: { 'if-match': broken } })),
      MALFORMED,
      JSON.stringify(broken),
    )
  }
  t.same(snapshot(built), before)
})

t.test('D18 preconditions come after every other refusal and before the rule', async (t) => {
  const { agent, call, put, path } = await withRule(t)
  const stale = { 'if-match': OTHER }
  t.equal((await ask(agent, 'DELETE', path, { headers: stale, token: null })).status, 401)
  t.equal((await put(path, { action: 'nope' }, stale)).status, 400)
  t.equal((await ask(agent, 'DELETE', `${P}/nope`, { headers: stale })).status, 404)
  t.same(refusal(await put(path, { action: 'drop', protocol: 'icmp', dest_port: 5 }, stale)), CHANGED(path))
  t.equal((await call('GET', path)).status, 200)
})

t.test('D18 a collection has no ETag: a change that names one is refused, not carried out unprotected', async (t) => {
  const { call } = await withRule(t)
  const add = (value: string) => call('POST', `${P}/rules`, { action: 'drop' }, { 'if-match': value })
  t.same(refusal(await add(OTHER)), [
    412,
    `precondition failed: ${P}/rules has no ETag; send If-Match to a single thing`,
  ])
  t.equal((await add('*')).status, 201)
})

t.test(
  'D18 If-None-Match with what a client holds is a 304 without a body; PUT with it is not for what is there',
  async (t) => {
    const { agent, call, put, path, tag } = await withRule(t)
    for (const held of [tag, `W/${tag}`, '*', `"x", ${tag}`]) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await ask(agent, method, path, { headers: { 'if-none-match': held } })
        t.same([answer.status, answer.text], [304, ''], `${method} ${held}`)
        t.match(answer.headers, { etag: tag, vary: 'accept-encoding', 'x-request-id': String })
        t.notOk(answer.headers['content-type'])
      }
    }
    t.match(await call('GET', path, undefined, { 'if-none-match': OTHER }), { status: 200, body: { action: 'drop' } })
    t.equal((await call('GET', path, undefined, { 'if-none-match': 'x' })).status, 400)
    t.same(refusal(await call('GET', path, undefined, { 'if-match': OTHER })), CHANGED(path))
    t.equal((await call('GET', path, undefined, { 'if-match': tag })).status, 200)
    t.same(refusal(await put(DEFAULT, { default_action: 'deny' }, { 'if-none-match': '*' })), [
      412,
      `precondition failed: ${DEFAULT} is there already`,
    ])
    t.equal((await put(path, { action: 'accept' }, { 'if-none-match': OTHER })).status, 200)
  },
)

t.test('D18 conv-09 conv-12 a compressed answer is tagged apart, and either tag names the state', async (t) => {
  const thing = { text: 'x'.repeat(2000) }
  const big = probe(
    'probe',
    ['/big'],
    [{ method: 'GET', path: '/big', answer: (request, reply) => sendOne(request, reply, thing) }],
  )
  const { agent } = await openAgent(t, { extraAreas: [big.plugin] })
  const get = (headers: Record<string, string>) =>
    agent.app.inject({ url: `${P}/big`, headers: { authorization: `Bearer ${TOKEN}`, ...headers } })
  const [whole, zipped] = [await get({}), await get({ 'accept-encoding': 'gzip' })]
  t.match(whole.headers.etag, STRONG)
  t.equal(zipped.headers.etag, `${String(whole.headers.etag).slice(0, -1)}-gzip"`)
  t.same(JSON.parse(gunzipSync(zipped.rawPayload).toString()), thing)
  for (const { headers } of [whole, zipped]) {
    t.equal((await get({ 'if-none-match': String(headers.etag), 'accept-encoding': 'gzip' })).statusCode, 304)
    t.equal((await get({ 'if-match': String(headers.etag) })).statusCode, 200)
  }
})
