/** When something fails inside: what the caller hears, what remains of it, and what must never be told. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Type } from 'typebox'
import { openStore } from '../../core/state/store.ts'
import { listenControl } from '../../core/transport/listener.ts'
import { fakePlane } from '../../dataplane/plane.fake.ts'
import { KernelRefusal, UncertainOutcome } from '../../dataplane/plane.ts'
import { overSocket } from '../agent.ts'
import { scratch, TOKEN } from '../build.ts'
import { probe, TENANT_KEY, TENANT_ROUTES, tenantKeys } from './areas.ts'
import { ask, openAgent, refusal } from './ask.ts'
import { snapshot } from './snapshot.ts'

const P = '/api/v1'
const OFF = [503, 'firewall service not available']

t.test('err-09 an area that is off answers 503 on its paths, reads and writes', async (t) => {
  const built = await openAgent(t, { config: { disabled_areas: 'firewall' } })
  const { agent } = built
  const before = snapshot(built)
  for (const { method, url } of agent.routes) {
    if (!url.startsWith(`${P}/rules`)) continue
    for (const one of [method].flat()) {
      for (const json of [undefined, {}, { action: 'drop' }]) {
        const answer = await ask(agent, one, url.replace(':id', '1'), json === undefined ? {} : { json })
        t.equal(answer.status, 503, `${one} ${url}`)
        if (one !== 'HEAD') t.same(refusal(answer), OFF, `${one} ${url}`)
      }
    }
  }
  for (const path of ['/rulesx', '/rule', '/Rules', '/nope'])
    t.equal((await ask(agent, 'GET', `${P}${path}`)).status, 404, path)
  for (const path of ['/status', '/health', '/license', '/docs'])
    t.equal((await ask(agent, 'GET', `${P}${path}`)).status, 200, path)
  t.equal((await ask(agent, 'GET', `${P}/rules`, { token: null })).status, 401)
  t.match(agent.states.all(), [
    { name: 'firewall', reason: 'disabled by disabled_areas' },
    { name: 'node', reason: undefined },
  ])
  t.same(snapshot(built), before)
  t.same(before.entries, [], 'its kernel objects are left as they were')
})

t.test('err-09 paths below the prefix of an area that is off are 503 as well when nothing serves them', async (t) => {
  const { agent } = await openAgent(t, { config: { disabled_areas: 'firewall' } })
  for (const path of ['/rules/1/2', '/rules/nope/nope', '/rules/default/x', '/rules/batch/1']) {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
      t.same(refusal(await ask(agent, method, `${P}${path}`)), OFF, `${method} ${path}`)
    }
  }
})

t.test('err-09 an area whose facility is missing is off too', async (t) => {
  const plane = fakePlane()
  plane.check = () => [{ name: 'nft', available: false, detail: 'no nf_tables' }]
  const { agent } = await openAgent(t, { plane })
  t.same(refusal(await ask(agent, 'GET', `${P}/rules`)), OFF)
  t.match(agent.states.all(), [{ name: 'firewall', reason: 'no nf_tables' }, {}])
})

const SQL = 'SELECT hash FROM core_operator_keys WHERE id = ?'
const throwing: Record<string, () => unknown> = {
  error: () => {
    throw new Error(SQL)
  },
  type: () => (undefined as unknown as { a: string }).a,
  coded: () => {
    throw Object.assign(new Error(SQL), { code: 'SQLITE_CORRUPT' })
  },
  five: () => {
    throw Object.assign(new Error(SQL), { statusCode: 502 })
  },
  odd: () => {
    throw Object.assign(new Error(SQL), { statusCode: 200 })
  },
  word: () => {
    throw SQL
  },
  nothing: () => {
    throw undefined
  },
  null: () => {
    throw null
  },
  object: () => {
    throw { message: SQL, stack: SQL }
  },
  late: () => Promise.reject(new Error(SQL)),
  circular: () => {
    const loop: { self?: unknown } = {}
    loop.self = loop
    return loop
  },
  bigint: () => ({ n: 1n }),
}

t.test('err-10 D116 whatever is thrown, the caller hears internal error and nothing else', async (t) => {
  const routes = Object.entries(throwing).map(([name, answer]) => ({
    method: 'POST' as const,
    path: `/throw/${name}`,
    answer,
  }))
  const built = await openAgent(t, { extraAreas: [probe('probe', ['/throw'], routes).plugin] })
  for (const name of Object.keys(throwing)) {
    const { status, text, headers } = await ask(built.agent, 'POST', `${P}/throw/${name}`)
    t.equal(status, 500, name)
    t.equal(text, '{"error":"internal error"}', name)
    t.match(headers['content-type'], /^application\/json/, name)
    const line = built.logged.find((one) => one.request_id === headers['x-request-id'])
    t.ok(line, `${name}: the log tells more`)
  }
  t.equal((await ask(built.agent, 'GET', `${P}/status`)).status, 200, 'the agent is none the worse')
})

t.test('err-10 conv-05 a shape that a route declares for its own refusal spoils no other refusal', async (t) => {
  const body = Type.Object({ name: Type.String() })
  const response = { 400: Type.Object({ error: Type.String(), results: Type.Array(Type.String()) }) }
  const { plugin } = probe('probe', ['/declared'], [{ method: 'POST', path: '/declared', body, response }])
  const { agent } = await openAgent(t, { extraAreas: [plugin] })
  t.same(refusal(await ask(agent, 'POST', `${P}/declared`, { json: {} })), [400, 'name is required'])
})

/** What may go wrong after the rule was written, and what the caller hears of it. */
const failures: [what: string, status: number, refuse: Error | undefined][] = [
  ['the kernel refuses', 409, new KernelRefusal('no room')],
  ['the plane fails', 500, new Error('netlink broke')],
  ['nobody knows', 500, new UncertainOutcome('timed out')],
  ['the commit fails', 500, undefined],
]

t.test('err-11 a step that fails takes everything back, for every change', async (t) => {
  let commitFails = false
  const built = await openAgent(t, {
    openStore(stateDir) {
      const store = openStore(stateDir)
      const { commit } = store
      store.commit = () => {
        if (commitFails) throw new Error('disk full')
        commit()
      }
      return store
    },
  })
  const { agent, plane } = built
  await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop', source_ip: '192.0.2.1' } })
  const changes: [string, string, unknown][] = [
    ['POST', '/rules', { action: 'drop' }],
    ['POST', '/rules/batch', { rules: [{ action: 'drop' }, { action: 'accept' }, {}] }],
    ['PUT', '/rules/1', { action: 'accept' }],
    ['PUT', '/rules/default', { default_action: 'deny' }],
    ['DELETE', '/rules/1', undefined],
  ]
  for (const [method, path, json] of changes) {
    for (const [what, status, refuse] of failures) {
      const [before, list] = [snapshot(built), (await ask(agent, 'GET', `${P}/rules`)).text]
      plane.refuse = refuse
      commitFails = refuse === undefined
      const answer = await ask(agent, method, `${P}${path}`, { json })
      commitFails = false
      plane.refuse = undefined
      t.equal(answer.status, status, `${method} ${path}: ${what}`)
      t.match(answer.body.error, status === 409 ? /^the kernel refused the change: no room$/ : /^internal error$/)
      t.equal(answer.headers['x-event-id'], undefined)
      t.same(snapshot(built), before, `${method} ${path}: ${what}`)
      t.equal((await ask(agent, 'GET', `${P}/rules`)).text, list)
    }
    t.ok((await ask(agent, method, `${P}${path}`, { json })).status < 300, `${method} ${path} works afterwards`)
    if (method === 'PUT' && path === '/rules/1') changes[4] = ['DELETE', `/rules/${lastRule(agent)}`, undefined]
  }
  const ids = agent.outbox.after(0, 100).map(({ id }) => id)
  t.same(
    ids,
    ids.map((_, index) => index + 1),
    'no gap and no event of what did not happen',
  )
})

function lastRule(agent: Awaited<ReturnType<typeof openAgent>>['agent']): number {
  const data = agent.outbox.after(0, 100).at(-1)?.data as { id: number }
  return data.id
}

t.test('auth-28 tokens, keys and hashes appear in no log, event, answer or file', async (t) => {
  const area = probe(
    'lodgers',
    ['/tenant', '/throw'],
    [...TENANT_ROUTES, { method: 'POST', path: '/throw', answer: throwing.error ?? (() => 0) }],
  )
  const built = await openAgent(t, { extraAreas: [area.plugin] })
  const { agent, stateDir, logged } = built
  agent.credentials.keys.set('tk', tenantKeys)
  const path = join(scratch(t), 'control.sock')
  const control = await listenControl(agent.app.routing.bind(agent.app), path)
  t.teardown(() => control.close(0))
  const call = overSocket(path)
  const chosen = `nt_chosen-${'k'.repeat(40)}`
  const generated = String((await call('POST', '/control/v1/token/generate')).body.token)
  await call('PUT', '/control/v1/token', { token: chosen })
  const minted = String((await call('POST', '/control/v1/apikeys', { label: 'ci' })).body.key)
  const wrong = 'nt_wrong-0123456789012345678901234567890'
  const secrets = [TOKEN, chosen, generated, minted, minted.slice(minted.indexOf('_', 3) + 1), TENANT_KEY, wrong]
  const hashes = [agent.overrides.read().tokenHash ?? '', agent.credentials.tokenHash?.toString('hex') ?? '']
  t.ok(secrets.every((secret) => secret.length > 20))

  const told: unknown[] = []
  for (const token of [...secrets, null]) {
    for (const { method, url } of agent.routes) {
      for (const payload of ['{}', '{', '{"action":"drop"}', '{"default_action":"allow"}']) {
        const headers = { 'content-type': 'application/json' }
        const answer = await ask(agent, String(method), url.replace(/:[a-z]+/g, '1'), { token, headers, payload })
        told.push(answer.text, answer.headers)
      }
    }
  }
  for (const url of [
    '/control/v1/token',
    '/control/v1/services',
    '/control/v1/config',
    '/control/v1/apikeys',
    '/control/v1/license',
    '/control/v1/blocks',
  ]) {
    told.push((await call('GET', url)).text)
  }
  for (const token of ['short', `${chosen} x`, 7, null])
    told.push((await call('PUT', '/control/v1/token', { token })).text)
  told.push((await call('PUT', '/control/v1/config/api_token', { value: chosen })).text)
  const places: Record<string, string> = {
    answers: JSON.stringify(told),
    logs: JSON.stringify(logged),
    events: JSON.stringify(agent.outbox.after(0, 10_000)),
    'process list': process.argv.join(' ') + JSON.stringify(process.env),
  }
  for (const name of readdirSync(stateDir, { recursive: true, encoding: 'utf8' })) {
    if (statSync(join(stateDir, name)).isFile()) places[name] = readFileSync(join(stateDir, name), 'latin1')
  }
  for (const [place, text] of Object.entries(places)) {
    for (const secret of secrets) t.notOk(text.includes(secret), `${place}: ${secret.slice(0, 9)}`)
    if (['answers', 'logs', 'events'].includes(place))
      for (const hash of hashes) t.notOk(text.includes(hash), `${place}: a hash`)
  }
  t.ok(Object.keys(places).includes('stratum.db'))
})
