/**
 * Every registered route by every kind of credential. What each may is written down here and in `tenantry.ts` once more,
 * from the specification, so a route that is open by mistake shows: by nobody's key, or by a tenant's.
 */
import t, { type Test } from 'tap'
import { defineArea } from '../../core/area.ts'
import type { Answer } from '../build.ts'
import { ask } from './ask.ts'
import { watchHandlers } from './handlers.ts'
import { shown, TENANT_MAY, TENANT_MAY_MACHINES, type Tenantry, tenantry } from './tenantry.ts'

const P = '/api/v1'
const PUBLIC = [`${P}/health`, `${P}/docs`, `${P}/tls/pubkey`]

type Kind = keyof Tenantry['key'] | 'none' | 'wrong'
type Verdict = 'pass' | readonly [status: number, error: string | RegExp]
const UNAUTHORIZED: Verdict = [401, 'unauthorized']
const OUTSIDE: Verdict = [403, 'forbidden: a tenant key may only act on its own tenant']
const RESERVED: Verdict = [403, /^forbidden: this change is reserved for the operator \([A-Z]+ \/api\/v1\/\S+\)$/]
const SUSPENDED: Verdict = [403, 'tenant suspended']
const PAUSED: Verdict = [403, 'changes are paused on this server; your machines keep running']
const FROZEN: Verdict = [
  403,
  'license inactive: changes are frozen until the license is renewed; existing workloads keep running',
]
/** A frozen node never traps a cluster. */
const THAWED = ['POST /cluster/leave', 'DELETE /cluster/members/{}', 'DELETE /cluster/join-codes/{}']
const NO_PATH: Verdict = [404, 'no such path']
const PARAMETER = /:\w+|\*/g

interface Case {
  method: string
  /** As registered. */
  route: string
  url: string
}

/** Every registered route and method, its parameters filled: the tenant with each of `tenants`, others with a word or an id. */
function cases({ agent }: Pick<Tenantry, 'agent'>, tenants: readonly string[]): Case[] {
  return agent.routes.flatMap(({ method, url: route }) =>
    [method]
      .flat()
      .flatMap((one) =>
        [...new Set(tenants.flatMap((tenant) => [filled(route, tenant, 'x1'), filled(route, tenant, tenant)]))].map(
          (url) => ({ method: one, route, url }),
        ),
      ),
  )
}

function filled(route: string, tenant: string, rest: string): string {
  return route.replace(/^(\/api\/v1\/(?:tenant|billing\/tenants)\/):\w+/, `$1${tenant}`).replace(PARAMETER, rest)
}

const lineOf = (method: string, route: string) => `${method} ${route.slice(P.length).replace(PARAMETER, '{}')}`

/** What the specification says of a call; `tenant`: whose key it is. */
function verdict({ method, route, url }: Case, kind: Kind, tenant = ''): Verdict {
  const reads = method === 'GET' || method === 'HEAD'
  if (PUBLIC.includes(route) && reads) return 'pass'
  if (kind === 'none' || kind === 'wrong' || kind === 'revoked' || kind === 'revokedOperator') return UNAUTHORIZED
  if (kind === 'node' || kind === 'operator') return route.startsWith(`${P}/`) ? 'pass' : NO_PATH
  const inside = [`${P}/tenant/${tenant}`, `${P}/billing/tenants/${tenant}`].some(
    (place) => url === place || url.startsWith(`${place}/`),
  )
  if (!inside) return OUTSIDE
  const line = lineOf(reads ? 'GET' : method, route)
  if (![...TENANT_MAY, ...TENANT_MAY_MACHINES].includes(line)) return RESERVED
  return kind === 'suspended' && !reads ? SUSPENDED : 'pass'
}

/** What becomes of a verdict while the licence is frozen; `kind` undefined: it is not. */
function frozen(expected: Verdict, { method, route }: Case, kind: Kind | undefined): Verdict {
  if (kind === undefined || expected !== 'pass' || method === 'GET' || method === 'HEAD') return expected
  if (THAWED.includes(lineOf(method, route))) return expected
  return kind === 'node' || kind === 'operator' ? FROZEN : PAUSED
}

function meets(answer: Answer, expected: Verdict, method: string): boolean {
  const { status, text, body } = answer
  if (expected === 'pass') {
    // Of what comes after the gates a call hears something else.
    const refused = [401, 403, 429].includes(status) || (status === 404 && body.error === NO_PATH[1])
    return !refused && status < 600 && status !== 500
  }
  const [code, error] = expected
  if (status !== code) return false
  if (method === 'HEAD') return text === ''
  const shape = Object.keys(body).join() === 'error'
  return shape && (typeof error === 'string' ? text === JSON.stringify({ error }) : error.test(String(body.error)))
}

/**
 * Calls so that a call that passes the gates changes nothing: a body that is no JSON is refused after all of them, and a
 * deletion, whose body says nothing, asks for a state that no thing is in.
 */
const harmless = (method: string) => ({
  headers: {
    'if-match': '"no such state"',
    ...(['GET', 'HEAD', 'DELETE'].includes(method) ? {} : { 'content-type': 'application/json' }),
  },
  ...(['GET', 'HEAD', 'DELETE'].includes(method) ? {} : { payload: '{' }),
})

/** What is not as it should be, and how often which verdict was expected. */
async function walk(built: Tenantry, all: readonly Case[], kind: Kind, isFrozen = false) {
  const token = kind === 'none' ? null : kind === 'wrong' ? 'nt_wrong-0123456789' : built.key[kind]
  const tenant = kind === 'own' || kind === 'other' || kind === 'suspended' ? built[kind] : undefined
  const wrong: string[] = []
  const counts: Record<string, number> = {}
  for (const one of all) {
    const expected = frozen(verdict(one, kind, tenant), one, isFrozen ? kind : undefined)
    const answer = await ask(built.agent, one.method, one.url, { token, ...harmless(one.method) })
    if (!meets(answer, expected, one.method)) {
      wrong.push(`${one.method} ${one.url}: ${answer.status} ${answer.text.slice(0, 200)}, expected ${expected}`)
    }
    const name = expected === 'pass' ? 'pass' : String(expected[0])
    counts[name] = (counts[name] ?? 0) + 1
  }
  return { wrong, counts }
}

async function walkWell(t: Test, ...[built, all, kind, isFrozen]: Parameters<typeof walk>) {
  const { wrong, counts } = await walk(built, all, kind, isFrozen)
  t.same(wrong, [], `${kind}: ${all.length} calls`)
  return counts
}

t.test(
  'auth-01 auth-02 auth-13 auth-15 every route refuses whoever has no key, a wrong one, or one that was revoked',
  async (t) => {
    const built = await tenantry(t)
    const runs = watchHandlers(t, built.agent)
    const all = cases(built, [built.own, built.other])
    t.ok(all.length > 150, `${all.length} calls`)
    const before = shown(built)
    for (const kind of ['none', 'wrong', 'revoked', 'revokedOperator'] as const) {
      t.match(await walkWell(t, built, all, kind), { pass: 6 }, 'three public paths')
    }
    t.same(new Set(runs.map(({ route }) => route)), new Set(PUBLIC), 'no other handler ran')
    t.equal(shown(built), before, 'nothing changed')
  },
)

t.test(
  'tkey-01 tkey-02 tkey-03 tkey-11 tkey-12 tkey-13 tkey-14 tkey-15 tkey-19 auth-10 every route by the key of a tenant',
  async (t) => {
    const built = await tenantry(t)
    const { own, other, suspended } = built
    const runs = watchHandlers(t, built.agent)
    const all = cases(built, [own, other, suspended])
    const before = shown(built)
    for (const kind of ['own', 'other', 'suspended'] as const) {
      runs.length = 0
      const counts = await walkWell(t, built, all, kind)
      t.ok((counts.pass ?? 0) > 6 && (counts[403] ?? 0) > 150, `${kind}: ${JSON.stringify(counts)}`)
      const foreign = runs.filter(
        ({ route, params }) => !PUBLIC.includes(route ?? '') && Object.values(params)[0] !== built[kind],
      )
      t.same(foreign, [], `${kind}: no handler ran for anybody else`)
    }
    t.equal(shown(built), before, 'nothing changed')
  },
)

t.test(
  'tkey-16 tkey-17 auth-04 auth-07 every route by the node token and by an operator key: never confined',
  async (t) => {
    const built = await tenantry(t)
    const all = cases(built, [built.own, built.other, built.suspended])
    const before = shown(built)
    for (const kind of ['node', 'operator'] as const) {
      const counts = await walkWell(t, built, all, kind)
      t.ok((counts.pass ?? 0) > 150, JSON.stringify(counts))
    }
    t.equal(shown(built), before, 'nothing changed')
  },
)

t.test('tkey-10 what the specification gives to tenants is there, and nothing else says that it is', async (t) => {
  const { agent } = await tenantry(t)
  const open = agent.routes.flatMap(({ method, url, config }) =>
    config?.access === 'tenant' && method !== 'HEAD' ? [method].flat().map((one) => lineOf(one, url)) : [],
  )
  const core = open.filter((line) => !TENANT_MAY_MACHINES.includes(line))
  t.same([...core].sort(), [...TENANT_MAY].sort())
})

t.test('a new route that is open by mistake shows', async (t) => {
  const open = defineArea(import.meta.url, {
    name: 'open',
    prefixes: ['/open'],
    routes(app) {
      app.get('/open/all', { config: { public: true } }, () => ({}))
      app.get('/open/tenants', { config: { access: 'tenant' } }, () => ({}))
      app.put('/tenant/:id/name', { config: { access: 'tenant' } }, () => ({}))
    },
  })
  const built = await tenantry(t, { extraAreas: [open] })
  const all = cases(built, [built.own]).filter(({ route }) => /open|name$/.test(route))
  const astray = async (kind: Kind) => (await walk(built, all, kind)).wrong.map((line) => line.split(':')[0])
  const toAll = ['GET', 'HEAD'].map((method) => `${method} ${P}/open/all`)
  t.same(new Set(await astray('none')), new Set(toAll))
  t.same(new Set(await astray('own')), new Set([...toAll, `PUT ${P}/tenant/${built.own}/name`]))
})

t.test(
  'tkey-18 lic-09 D39 with a frozen licence every change of every route is refused, and every read goes on',
  async (t) => {
    const clock = { ms: Date.now() }
    const built = await tenantry(t, { now: () => new Date(clock.ms) })
    // The evaluation has ended, and the days of grace too.
    clock.ms += 60 * 86_400_000
    const all = cases(built, [built.own, built.other, built.suspended])
    const before = shown(built)
    for (const kind of ['own', 'suspended', 'operator', 'node'] as const) await walkWell(t, built, all, kind, true)
    t.equal(shown(built), before, 'nothing changed')
  },
)
