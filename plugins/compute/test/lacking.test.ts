/** Subsystems that this agent does not have: after every other refusal, and whatever is asked below their paths. */
import t from 'tap'
import { apiPath } from '../../../core/gates/gate.ts'
import { SUSPENDED_KEY, TENANT_KEY, tenantKeys } from '../../../test/rest/areas.ts'
import { ask, openAgent, refusal } from '../../../test/rest/ask.ts'

const P = '/api/v1'
const AREAS = ['node', 'ipam', 'l2', 'networks', 'compute']
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const NAMES: [path: string, name: string][] = [
  ['/vms', 'compute'],
  ['/images', 'images'],
  ['/volumes', 'volumes'],
  ['/containers', 'containers'],
  ['/operations', 'operations'],
]
const BELOW = ['', '/', '/x', '/x/', '/x/start', '/x/y/z?a=b', '?limit=5', '/%20', '/%2f..', '#x']
const OUTSIDE = [403, 'forbidden: a tenant key may only act on its own tenant']

t.test('err-09 D108 every method and every path below answers 503 with the name of the subsystem', async (t) => {
  const { agent } = await openAgent(t, { only: AREAS })
  for (const [path, name] of NAMES) {
    for (const below of BELOW) {
      for (const method of METHODS) {
        const answer = await ask(agent, method, `${P}${path}${below}`, { payload: '{', headers: {} })
        t.equal(answer.status, 503, `${method} ${path}${below}`)
        if (method !== 'HEAD') t.equal(answer.body.error, `${name} service not available`, `${method} ${path}${below}`)
      }
    }
    for (const other of [`${path}x`, `${path.toUpperCase()}`, `/x${path}`, `${path};`, `/%2f${path.slice(1)}`]) {
      t.equal((await ask(agent, 'GET', P + other)).status, 404, other)
    }
    t.equal(agent.states.owner(apiPath(`${P}${path}/1`) ?? ''), 'compute', 'the area that says so')
  }
  t.equal((await ask(agent, 'GET', `${P}/tasks`)).status, 200, 'and tasks are served')
})

t.test('D1 D108 whoever may not call is told that first, and frozen comes before', async (t) => {
  const { agent } = await openAgent(t, { only: AREAS, licensed: false })
  agent.credentials.keys.set('tk', tenantKeys)
  for (const [path, name] of NAMES) {
    for (const url of [`${P}${path}`, `${P}${path}/x`]) {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
        const label = `${method} ${url}`
        for (const token of [null, 'wrong']) {
          t.same(refusal(await ask(agent, method, url, { token })), [401, 'unauthorized'], label)
        }
        for (const token of [TENANT_KEY, SUSPENDED_KEY]) {
          t.same(refusal(await ask(agent, method, url, { token })), OUTSIDE, `tkey-01 tkey-15 ${label}`)
        }
        const expected = method === 'GET' ? [503, `${name} service not available`] : [403, /^no license installed/]
        t.match(refusal(await ask(agent, method, url)), expected, label)
      }
    }
  }
})

t.test('D108 where the area itself is off, its own paths are 503 and the others as before', async (t) => {
  const { agent } = await openAgent(t, { only: AREAS, config: { disabled_areas: 'compute' } })
  const own: typeof NAMES = [
    ['/tasks', 'compute'],
    ['/tasks/x', 'compute'],
  ]
  for (const [path, name] of [...NAMES, ...own]) {
    t.same(refusal(await ask(agent, 'GET', P + path)), [503, `${name} service not available`], path)
  }
})
