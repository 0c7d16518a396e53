/** `GET /metrics`: who may read it, what form it has, what it tells of the node. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { listenControl } from '../../../core/transport/listener.ts'
import { overSocket } from '../../../test/agent.ts'
import { scratch, TOKEN } from '../../../test/build.ts'
import { readExposition } from '../../../test/exposition.ts'
import { requireProgram } from '../../../test/required.ts'
import { OWN, probe, TENANT_KEY, TENANT_ROUTES, tenantKeys } from '../../../test/rest/areas.ts'
import { ask, openAgent } from '../../../test/rest/ask.ts'

const URL = '/api/v1/metrics'

t.test('the operator reads it, nobody else does', async (t) => {
  const rest = probe('rest', ['/tenant'], TENANT_ROUTES)
  const { agent, call } = await openAgent(t, { extraAreas: [rest.plugin] })
  agent.credentials.keys.set('tk', tenantKeys)
  t.same((await ask(agent, 'GET', URL, { token: null })).body, { error: 'unauthorized' })
  t.equal((await ask(agent, 'GET', URL, { token: 'nt_wrong' })).status, 401)
  t.equal((await ask(agent, 'GET', `/api/v1/tenant/${OWN}`, { token: TENANT_KEY })).status, 200, 'the key is good')
  t.match(await ask(agent, 'GET', URL, { token: TENANT_KEY }), {
    status: 403,
    body: { error: 'forbidden: a tenant key may only act on its own tenant' },
  })
  const answer = await ask(agent, 'GET', URL)
  t.equal(answer.status, 200)
  t.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  t.ok(readExposition(answer.text).families.size > 30)
  t.notOk(answer.text.includes(TOKEN))
  t.equal((await ask(agent, 'HEAD', URL)).text, '')
  t.equal((await ask(agent, 'POST', URL, { json: {} })).status, 404)
  const listed = (await call('GET', '/api/v1/docs')).body.endpoints as { path: string }[]
  t.match(
    listed.find(({ path }) => path === URL),
    { method: 'GET', area: 'node', auth: 'token', feature: null, success: 200 },
  )
})

t.test('an operator key is as good as the token, and a frozen licence changes nothing', async (t) => {
  const { agent } = await openAgent(t, { licensed: false })
  const socket = join(scratch(t), 'control.sock')
  const control = await listenControl(agent.app.routing.bind(agent.app), socket)
  t.teardown(() => control.close(0))
  const call = overSocket(socket)
  const { status, body } = await call('POST', '/control/v1/apikeys', { label: 'prometheus' })
  t.equal(status, 201)
  t.equal((await ask(agent, 'GET', URL, { token: body.key as string })).status, 200)

  const answer = await call('GET', URL)
  t.equal(answer.status, 200, 'over the control socket without a credential')
  t.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  const metrics = readExposition(answer.text)
  t.equal(metrics.value('stratum_http_requests_total', { route: '/control/v1/apikeys', code: '201' }), 1)
})

t.test('what it tells of the agent and its licence', async (t) => {
  const clock = { ms: Date.UTC(2030, 0, 1) }
  const { agent } = await openAgent(t, { licensed: false, now: () => new Date(clock.ms) })
  const read = async () => readExposition((await ask(agent, 'GET', URL)).text)
  let metrics = await read()
  t.equal(metrics.value('stratum_build_info', { version: agent.version, node: process.version }), 1)
  t.equal(metrics.value('stratum_start_time_seconds'), clock.ms / 1000)
  t.ok((metrics.value('stratum_process_resident_memory_bytes') ?? 0) > 20e6)
  t.ok((metrics.value('stratum_process_cpu_seconds_total', { mode: 'user' }) ?? 0) > 0.05)
  t.ok((metrics.value('stratum_event_loop_delay_p99_seconds') ?? -1) >= 0)

  const states = () =>
    Object.fromEntries(metrics.series('stratum_licence_state').map(({ labels: { state }, value }) => [state, value]))
  t.same(states(), { none: 1, active: 0, warning: 0, grace: 0, frozen: 0 })
  t.equal(metrics.value('stratum_licence_mutations_allowed'), 0)
  t.notOk(metrics.families.has('stratum_licence_remaining_seconds'))

  await agent.licence.evaluate()
  metrics = await read()
  t.same(states(), { none: 0, active: 1, warning: 0, grace: 0, frozen: 0 })
  t.equal(metrics.value('stratum_licence_mutations_allowed'), 1)
  t.equal(metrics.value('stratum_licence_remaining_seconds'), 30 * 86_400)
  clock.ms += 50 * 86_400_000
  metrics = await read()
  t.same(states(), { none: 0, active: 0, warning: 0, grace: 0, frozen: 1 })
  t.equal(metrics.value('stratum_licence_mutations_allowed'), 0)
  t.equal(metrics.value('stratum_licence_remaining_seconds'), -20 * 86_400)
})

t.test('promtool finds nothing to say about it', async (t) => {
  if (!requireProgram(t, 'promtool')) return
  const { agent } = await openAgent(t)
  await ask(agent, 'POST', '/api/v1/rules', { json: { action: 'drop' } })
  const { text } = await ask(agent, 'GET', URL)
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  })
  t.same([status, stdout + stderr], [0, ''])
})
