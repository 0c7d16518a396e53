/** D1: when several things are wrong with a call, which one it hears of. */
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { OTHER, OWN, type ProbeRoute, probe, SUSPENDED_KEY, TENANT_KEY, tenantKeys } from '../../../test/rest/areas.ts'
import { type Ask, ask, openAgent, refusal } from '../../../test/rest/ask.ts'
import { BARE, DAY_MS, END, vendor } from '../../../test/rest/vendor.ts'
import type { AreaStates } from '../../areas.ts'
import { conflict, notFound } from '../../errors.ts'
import { clientAt } from '../client.ts'
import type { Call, Caller } from '../gate.ts'
import { subsystem } from '../subsystem.ts'

const P = '/api/v1'
const FROZEN = 'license inactive: changes are frozen until the license is renewed; existing workloads keep running'
const TENANT_FROZEN = 'changes are paused on this server; your machines keep running'

const SOURCE: Refused = [403, 'forbidden: source address not allowed']
const BLOCKED: Refused = [429, 'too many failed authentication attempts']
const RATE: Refused = [429, 'rate limit exceeded']
const NO_CREDENTIAL: Refused = [401, 'unauthorized']
const SCOPE: Refused = [403, 'forbidden: a tenant key may only act on its own tenant']
const PLAN: Refused = [403, 'feature not in plan: DNS']
const NO_PATH: Refused = [404, 'no such path']
const STOPPED: Refused = [403, FROZEN]
const OFF: Refused = [503, 'firewall service not available']
const MEDIA: Refused = [415, 'Content-Type must be application/json']
const SIZE: Refused = [413, 'body over 1 MiB']

type Refused = [number, unknown]

const STRANGER = '198.51.100.1'
const LOCKED = '192.0.2.66'
const SPENT = '192.0.2.77'
const BIG = `{"name":"${'x'.repeat(1_048_576)}"`

const Thing = Type.Object({ name: Type.String() })
const ROUTES: readonly ProbeRoute[] = [
  { method: 'POST', path: '/things', body: Thing },
  {
    method: 'PUT',
    path: '/things/:id',
    body: Thing,
    answer: () => {
      throw notFound('thing', 7)
    },
  },
  {
    method: 'POST',
    path: '/things/:id/take',
    body: Thing,
    answer: () => {
      throw conflict('TAKEN', 'thing is taken')
    },
  },
  { method: 'GET', path: '/tenant/:id', access: 'tenant' },
  { method: 'POST', path: '/tenant/:id/keys', access: 'tenant', body: Thing },
  { method: 'PUT', path: '/tenant/:id', body: Thing },
]

type Row = [title: string, method: string, url: string, options: Ask, expected: Refused]

async function table(scope: Test, licence: 'active' | 'frozen', rows: readonly Row[]): Promise<void> {
  const area = probe('things', ['/things', '/tenant'], ROUTES)
  const { config, sign } = vendor(scope)
  const clock = { ms: END - 100 * DAY_MS }
  const { agent } = await openAgent(scope, {
    licensed: false,
    extraAreas: [area.plugin],
    now: () => new Date(clock.ms),
    config: {
      ...config,
      api_allowed_ips: '192.0.2.0/24',
      api_auth_fail_limit: '1',
      api_rate_burst: '20',
      api_rate_limit: '1',
      disabled_areas: 'firewall',
    },
  })
  agent.credentials.keys.set('tk', tenantKeys)
  await agent.licence.install(sign(BARE))
  if (licence === 'frozen') clock.ms = END + 14 * DAY_MS
  for (const address of [STRANGER, LOCKED]) agent.gates.lockout.fail(clientAt(address).key)
  for (const address of [STRANGER, LOCKED, SPENT]) while (agent.gates.rate.take(clientAt(address).key) === undefined);

  for (const [index, [title, method, url, options, expected]] of rows.entries()) {
    // A bucket for every row, so that only those run dry that shall.
    const from = `192.0.2.${100 + index}`
    scope.same(refusal(await ask(agent, method, `${P}${url}`, { from, ...options })), expected, title)
    const reached = /^(14|nothing|9 freeze spares)/.test(title)
    scope.equal(area.hits.splice(0).length, reached ? 1 : 0, `${title}: ${reached ? 'handled' : 'never handled'}`)
  }
}

t.test(
  'err-09 an operator hears in a field why an area is off, a tenant and nobody in particular do not',
  async (t) => {
    const { agent } = await openAgent(t, { config: { disabled_areas: 'firewall' } })
    agent.credentials.keys.set('tk', tenantKeys)
    const reason = async (options: Ask, path = '/rules') =>
      (await ask(agent, 'GET', `${P}${path}`, options)).headers['stratum-reason']
    t.equal(await reason({}), 'disabled by disabled_areas')
    t.equal(await reason({}, '/rules/no/such/path'), 'disabled by disabled_areas')
    for (const token of [null, 'wrong', TENANT_KEY]) t.equal(await reason({ token }), undefined, String(token))
    agent.states.turnOff('firewall', `no device \u201cé\u201d\r\nset-cookie: ${'x'.repeat(1000)}`)
    const told = String(await reason({}))
    t.match(told, /^no device [\x20-\x7e]+$/)
    t.equal(told.length, 256)

    const gate = subsystem({ offAt: () => ({ name: 'lb', reason: 'why' }) } as unknown as AreaStates)
    const headersFor = (kind: Caller['kind'] | undefined) =>
      gate({ path: '/lb', caller: kind && { kind, label: 'x' } } as unknown as Call)?.headers
    for (const kind of ['token', 'operator', 'cli'] as const) t.same(headersFor(kind), { 'stratum-reason': 'why' })
    for (const kind of ['tenant', undefined] as const) t.same(headersFor(kind), {}, kind ?? 'a public path')
  },
)

const text = { 'content-type': 'text/plain' }
const json = { 'content-type': 'application/json' }

t.test('D1 with an active plan, every neighbouring pair', async (t) => {
  await table(t, 'active', [
    ['1 allow-list before 2 block', 'GET', '/status', { from: STRANGER }, SOURCE],
    ['1 allow-list before 4 public', 'GET', '/health', { from: STRANGER, token: null }, SOURCE],
    ['2 block before 3 rate', 'GET', '/status', { from: LOCKED }, BLOCKED],
    ['2 block before 4 public', 'GET', '/health', { from: LOCKED }, BLOCKED],
    ['3 rate before 4 public', 'GET', '/health', { from: SPENT }, RATE],
    ['3 rate before 5 credential', 'GET', '/status', { from: SPENT, token: 'wrong' }, RATE],
    ['4 public before 5 credential', 'GET', '/health', { token: 'wrong' }, [200, undefined]],
    ['5 credential before 6 scope', 'GET', `/tenant/${OTHER}`, { token: 'tk_a1_wrong' }, NO_CREDENTIAL],
    ['5 credential before 7 plan', 'GET', '/dns/zones', { token: null }, NO_CREDENTIAL],
    ['5 credential before 8 path', 'GET', '/nope', { token: null }, NO_CREDENTIAL],
    ['6 scope before 7 plan', 'GET', '/dns/zones', { token: TENANT_KEY }, SCOPE],
    ['6 scope before 8 path', 'GET', '/nope', { token: TENANT_KEY }, SCOPE],
    ['6 scope before 10 subsystem', 'GET', '/rules', { token: TENANT_KEY }, SCOPE],
    ['6 scope before 11 media type', 'POST', '/things', { token: TENANT_KEY, headers: text, payload: 'x' }, SCOPE],
    ['7 plan before 8 path', 'GET', '/dns/no/such/path', {}, PLAN],
    ['7 plan before 11 media type', 'POST', '/dns/zones', { headers: text, payload: 'x' }, PLAN],
    ['8 path before 11 media type', 'POST', '/nope', { headers: text, payload: 'x' }, NO_PATH],
    ['8 path before 11 size', 'POST', '/nope', { headers: json, payload: BIG }, NO_PATH],
    ['8 method before 12 JSON', 'PATCH', '/things', { headers: json, payload: '{' }, NO_PATH],
    ['10 subsystem before 11 media type', 'POST', '/rules', { headers: text, payload: 'x' }, OFF],
    ['10 subsystem before 11 size', 'POST', '/rules', { headers: json, payload: BIG }, OFF],
    ['10 subsystem before 12 JSON', 'POST', '/rules', { headers: json, payload: '{' }, OFF],
    ['10 subsystem before 14 unknown id', 'GET', '/rules/99', {}, OFF],
    ['11 media type before size', 'POST', '/things', { headers: text, payload: BIG }, MEDIA],
    ['11 media type before 12 JSON', 'POST', '/things', { headers: text, payload: '{' }, MEDIA],
    ['11 size before 12 JSON', 'POST', '/things', { headers: json, payload: BIG }, SIZE],
    ['11 size before 14 unknown', 'PUT', '/things/7', { headers: json, payload: BIG }, SIZE],
    [
      '12 JSON before 13 schema',
      'POST',
      '/things',
      { headers: json, payload: '{"x":1,"x":2}' },
      [400, 'duplicate key: x'],
    ],
    [
      '12 JSON before 14 unknown',
      'PUT',
      '/things/7',
      { headers: json, payload: '{"name":"a","name":"b"}' },
      [400, 'duplicate key: name'],
    ],
    ['13 schema before 14 unknown', 'PUT', '/things/7', { json: { name: 1 } }, [400, 'name: must be text']],
    ['13 schema before 14 conflict', 'POST', '/things/7/take', { json: {} }, [400, 'name is required']],
    ['14 unknown', 'PUT', '/things/7', { json: { name: 'a' } }, [404, 'thing 7 not found']],
    ['14 conflict', 'POST', '/things/7/take', { json: { name: 'a' } }, [409, 'thing is taken']],
    ['nothing is wrong', 'POST', '/things', { json: { name: 'a' } }, [200, undefined]],
  ])
})

t.test('D1 D39 tkey-18 with a frozen licence', async (t) => {
  const own = `/tenant/${OWN}`
  await table(t, 'frozen', [
    ['5 credential before 9 freeze', 'POST', '/things', { token: null }, NO_CREDENTIAL],
    ['6 scope before 9 freeze', 'POST', `/tenant/${OTHER}/keys`, { token: TENANT_KEY }, SCOPE],
    [
      '6 operator-only before 9 freeze',
      'PUT',
      own,
      { token: TENANT_KEY },
      [403, `forbidden: this change is reserved for the operator (PUT ${P}/tenant/{id})`],
    ],
    ['6 suspended before 9 freeze', 'POST', `${own}/keys`, { token: SUSPENDED_KEY }, [403, 'tenant suspended']],
    ['7 plan before 9 freeze', 'POST', '/dns/zones', {}, PLAN],
    ['8 path before 9 freeze', 'POST', '/nope', {}, NO_PATH],
    ['8 method before 9 freeze', 'PATCH', '/things', {}, NO_PATH],
    ['9 freeze before 10 subsystem', 'POST', '/rules', {}, STOPPED],
    ['9 freeze before 10 subsystem', 'DELETE', '/rules/1', {}, STOPPED],
    ['9 freeze before 11 media type', 'POST', '/things', { headers: text, payload: 'x' }, STOPPED],
    ['9 freeze before 11 size', 'POST', '/things', { headers: json, payload: BIG }, STOPPED],
    ['9 freeze before 12 JSON', 'POST', '/things', { headers: json, payload: '{' }, STOPPED],
    ['9 freeze before 14 unknown', 'PUT', '/things/7', { json: { name: 'a' } }, STOPPED],
    ['9 freeze, told to a tenant', 'POST', `${own}/keys`, { token: TENANT_KEY }, [403, TENANT_FROZEN]],
    ['9 freeze spares reads', 'GET', own, { token: TENANT_KEY }, [200, undefined]],
    ['10 subsystem on a read', 'GET', '/rules', {}, OFF],
  ])
})
