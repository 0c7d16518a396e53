/** Paths that look like what they are not, byte by byte over a wire: none leads past a gate. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { listenControl } from '../../core/transport/listener.ts'
import { scratch, TOKEN } from '../build.ts'
import { fc } from '../property.ts'
import { SEED } from '../seed.ts'
import {
  CLUSTER_FIVE,
  CLUSTER_ROUTES,
  GATED_ROUTES,
  type Hit,
  OTHER,
  OWN,
  probe,
  SUSPENDED_KEY,
  TENANT_KEY,
  TENANT_ROUTES,
  tenantKeys,
} from './areas.ts'
import { BARE, DAY_MS, END, type Licensed, unlicensed } from './vendor.ts'
import { type Line, plainLine, servePlain } from './wire.ts'

const P = '/api/v1'

/** Pieces that are put in front of, into and behind a path. */
const PIECES = [
  ...[
    '/',
    '//',
    '/.',
    '/./',
    '/..',
    '/../',
    '/%2e',
    '/%2e%2e/',
    '/%2E%2e',
    '/.%2e/',
    '/..;/',
    '%2f',
    '%2F',
    '%252f',
    '%5c',
    '\\',
  ],
  ...[
    '#',
    '#/',
    '%23',
    '?',
    '?/',
    '%3f',
    ';',
    ';x=1',
    '%3b',
    '*',
    '+',
    '&',
    ':',
    '@',
    '|',
    '%',
    '%2',
    '%zz',
    '%25',
    '%00',
    '%ff',
  ],
  ...[
    '%c0%af',
    '%ef%bc%8f',
    '%e2%80%ae',
    '%20',
    '%09',
    '%0d%0a',
    '~',
    `/${OWN}`,
    `/../${OWN}`,
    `/../${OTHER}`,
    `%2f..%2f${OTHER}`,
  ],
  ...['/cluster/leave', '/cluster/status', '/health', '/docs', '?/api/v1/health', '#/api/v1/health', 'a'.repeat(3000)],
]
const FRONTS = ['', '/.', '//', '/x/..', '/%2e', '/health/..', 'http://node', 'https://node:7070', 'HTTP://node']
const edit = fc.tuple(
  fc.constantFrom('encode', 'encode', 'behind', 'behind', 'behind', 'piece', 'double', 'upper'),
  fc.nat(200),
  fc.constantFrom(...PIECES),
)
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never

function edited(path: string, [kind, at, piece]: Edit): string {
  // The first slash stays: without it this is no HTTP, and the connection ends.
  const index = 1 + (at % (path.length - 1))
  const [head, char, tail] = [path.slice(0, index), path[index] ?? '', path.slice(index + 1)]
  const hex = char.charCodeAt(0).toString(16).padStart(2, '0')
  switch (kind) {
    case 'encode':
      return `${head}%${at % 2 ? hex : hex.toUpperCase()}${tail}`
    case 'double':
      return `${head}%25${hex}${tail}`
    case 'upper':
      return head + char.toUpperCase() + tail
    case 'behind':
      return path + piece
    default:
      return head + char + piece + tail
  }
}

/** Paths that look like `targets` and are not, in the form in which they go over the wire. */
const tricks = (targets: readonly string[], count: number, seed: number): string[] =>
  fc
    .sample(
      fc.tuple(
        fc.oneof({ weight: 6, arbitrary: fc.constant('') }, { weight: 1, arbitrary: fc.constantFrom(...FRONTS) }),
        fc.constantFrom(...targets),
        fc.array(edit, { maxLength: 3 }),
      ),
      {
        numRuns: count,
        seed,
      },
    )
    .map(([front, target, edits]) => front + edits.reduce(edited, P + target))

/** Sends all requests, a hundred at a time in one write; resolves to the statuses. */
async function volley(dial: () => Promise<Line>, requests: readonly string[]): Promise<number[]> {
  const statuses: number[] = []
  let line = await dial()
  for (let from = 0; from < requests.length; from += 100) {
    const part = requests.slice(from, from + 100)
    line.write(part.join(''))
    for (const request of part) {
      const reply = await line.next()
      if (reply === undefined) throw new Error(`the connection ended at ${JSON.stringify(request.slice(0, 200))}`)
      statuses.push(reply.status)
    }
    if (from % 2000 === 0) {
      line.destroy()
      line = await dial()
    }
  }
  return statuses
}

const filled = (path: string) => path.replace(/:[a-z]+/g, 'x1')
const TARGETS = [...new Set([...GATED_ROUTES, ...CLUSTER_ROUTES].map(({ path }) => filled(path))), '/off', '/off/x1']
const TENANTS = [OWN, OTHER].flatMap((id) =>
  TENANT_ROUTES.map(({ path }) => path.replace(':id', id).replace(':kid', 'k')),
)
const gated = ({ method, route }: Hit) =>
  /^\/(networks|routed-addresses|dns|dhcp|vxlan|lb|bgp|gateway|bandwidth|cluster)(\/|$)/.test(route) &&
  !CLUSTER_FIVE.some((five) => five.method === method && five.path === route)

interface Fuzzed extends Licensed {
  off: Hit[]
  fire(methods: readonly string[], paths: readonly string[], key?: string): Promise<number[]>
}

async function fuzzed(t: Test, control = false): Promise<Fuzzed> {
  const on = probe('on', ['/on'], [...GATED_ROUTES, ...CLUSTER_ROUTES, ...TENANT_ROUTES])
  const off = probe(
    'off',
    ['/off'],
    [
      { method: 'GET', path: '/off' },
      { method: 'POST', path: '/off/:id' },
    ],
  )
  const built = await unlicensed(t, { extraAreas: [on.plugin, off.plugin] })
  built.agent.credentials.keys.set('tk', tenantKeys)
  built.agent.states.turnOff('off', 'for this test')
  await built.agent.licence.install(built.sign(BARE))
  const path = join(scratch(t), 'control.sock')
  let dial: () => Promise<Line>
  if (control) {
    const listener = await listenControl(built.agent.app.routing.bind(built.agent.app), path)
    t.teardown(() => listener.close(0))
    dial = () => plainLine(t, path)
  } else {
    const port = await servePlain(t, built.agent)
    dial = () => plainLine(t, port)
  }
  const fire = (methods: readonly string[], paths: readonly string[], key = TOKEN) => {
    const head = `Host: node\r\nAuthorization: Bearer ${key}\r\n`
    const verb = (index: number) => methods[index % methods.length] ?? 'GET'
    return volley(
      dial,
      paths.map((one, index) => `${verb(index)} ${one} HTTP/1.1\r\n${head}\r\n`),
    )
  }
  return { ...built, hits: on.hits, off: off.hits, fire }
}

const told = (hits: readonly Hit[]) =>
  hits.slice(0, 5).map(({ method, url, route }) => `${method} ${url.slice(0, 100)} → ${route}`)

t.test('gate-11 err-09 what follows a # is not part of the path that is judged', async (t) => {
  const { hits, off, fire } = await fuzzed(t)
  const behind = ['#', '#x', '#/x', '/#', '#?', '?#', '#/../health', '%23']
  const paths = TARGETS.flatMap((target) => behind.map((tail) => P + target + tail))
  await fire(['GET'], paths)
  await fire(['POST'], paths)
  t.same(told(hits.filter(gated)), [], 'the plan')
  t.same(told(off), [], 'off')
})

t.test(`tkey-20 D40 8000 paths: a tenant key reaches its own tenant's routes only (seed ${SEED})`, async (t) => {
  const { hits, fire } = await fuzzed(t)
  const paths = tricks([...TENANTS, ...TENANTS, ...TARGETS], 8000, SEED)
  const statuses = await fire(['GET', 'POST', 'PUT', 'DELETE'], paths, TENANT_KEY)
  const allowed = new Set(TENANT_ROUTES.filter(({ access }) => access).map(({ method, path }) => `${method} ${path}`))
  const astray = hits.filter(({ method, route, params }) => params.id !== OWN || !allowed.has(`${method} ${route}`))
  t.same(told(astray), [])
  t.ok(hits.length > 50, `${hits.length} reached their own`)
  t.same(
    statuses.filter((status) => status >= 500),
    [],
  )
  hits.length = 0
  await fire(['POST', 'DELETE'], paths.slice(0, 1000), SUSPENDED_KEY)
  t.same(told(hits), [], 'a suspended tenant changes nothing')
})

t.test(`gate-11 err-09 8000 paths: none leads past the plan or into an area that is off (seed ${SEED})`, async (t) => {
  const { hits, off, fire } = await fuzzed(t)
  const statuses = await fire(
    ['GET', 'POST', 'PUT', 'DELETE'],
    tricks([...TARGETS, ...TENANTS.slice(0, 3)], 8000, SEED + 1),
  )
  t.same(told(hits.filter(gated)), [], 'the plan')
  t.same(told(off), [], 'off')
  t.ok(hits.length > 100, `${hits.length} reached what is open`)
  t.same(
    [...new Set(statuses)].filter((status) => status >= 500 && status !== 503),
    [],
  )
})

t.test(`lic-09 4000 paths: none leads past the freeze (seed ${SEED})`, async (t) => {
  const { agent, hits, fire, clock, sign } = await fuzzed(t)
  await agent.licence.install(sign())
  clock.ms = END + 15 * DAY_MS
  await fire(['POST', 'PUT', 'DELETE'], tricks([...TARGETS, ...TENANTS], 4000, SEED + 2))
  t.same(
    told(
      hits.filter(({ method, route }) => !CLUSTER_FIVE.some((five) => five.method === method && five.path === route)),
    ),
    [],
  )
})

t.test(
  `gate-11 lic-09 4000 paths: the control socket knows no way past plan, freeze and 503 either (seed ${SEED})`,
  async (t) => {
    const { agent, hits, off, fire, clock, sign } = await fuzzed(t, true)
    await fire(['GET', 'POST', 'PUT', 'DELETE'], tricks(TARGETS, 2000, SEED + 3))
    t.same(told(hits.splice(0).filter(gated)), [], 'the plan')
    t.same(told(off), [], 'off')
    await agent.licence.install(sign())
    clock.ms = END + 15 * DAY_MS
    await fire(['POST', 'PUT', 'DELETE'], tricks(TARGETS, 2000, SEED + 4))
    t.same(
      told(
        hits.filter(({ method, route }) => !CLUSTER_FIVE.some((five) => five.method === method && five.path === route)),
      ),
      [],
      'the freeze',
    )
  },
)
