/** What the counts of requests say after real requests. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { readExposition } from '../../../test/exposition.ts'
import { OTHER, probe, TENANT_KEY, TENANT_ROUTES, tenantKeys } from '../../../test/rest/areas.ts'
import { ask, openAgent } from '../../../test/rest/ask.ts'
import { plainLine, servePlain } from '../../../test/rest/wire.ts'
import type { Agent } from '../../agent.ts'

const P = '/api/v1'
const scrape = async (agent: Agent) => readExposition(await agent.metrics.text())
const answers = async (agent: Agent, labels: Record<string, string>) =>
  (await scrape(agent)).series('stratum_http_requests_total', labels).map(({ labels, value }) => [labels, value])

t.test('answers are counted by method, route pattern and status', async (t) => {
  const { agent } = await openAgent(t)
  await ask(agent, 'GET', `${P}/health`)
  await ask(agent, 'GET', `${P}/health?x=1`)
  await ask(agent, 'HEAD', `${P}/health`)
  await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop' } })
  await ask(agent, 'POST', `${P}/rules`, { json: { action: 'burn' } })
  await ask(agent, 'GET', `${P}/rules/1`)
  await ask(agent, 'GET', `${P}/rules/2`)
  await ask(agent, 'GET', `${P}/status`, { token: null })
  t.same(await answers(agent, { route: `${P}/health` }), [
    [{ method: 'GET', route: `${P}/health`, code: '200' }, 2],
    [{ method: 'HEAD', route: `${P}/health`, code: '200' }, 1],
  ])
  t.same(await answers(agent, { route: `${P}/rules` }), [
    [{ method: 'POST', route: `${P}/rules`, code: '201' }, 1],
    [{ method: 'POST', route: `${P}/rules`, code: '400' }, 1],
  ])
  t.same(await answers(agent, { route: `${P}/rules/:id` }), [
    [{ method: 'GET', route: `${P}/rules/:id`, code: '200' }, 1],
    [{ method: 'GET', route: `${P}/rules/:id`, code: '404' }, 1],
  ])
  t.same(await answers(agent, { code: '401' }), [[{ method: 'GET', route: `${P}/status`, code: '401' }, 1]])
})

t.test('the time of every answer is in the histogram of its route, in seconds', async (t) => {
  const slow = probe(
    'slow',
    ['/slow'],
    [{ method: 'GET', path: '/slow', answer: () => new Promise((resolve) => setTimeout(() => resolve({}), 30)) }],
  )
  const { agent } = await openAgent(t, { extraAreas: [slow.plugin] })
  for (let n = 0; n < 3; n++) await ask(agent, 'GET', `${P}/slow`)
  const metrics = await scrape(agent)
  const at = (ending: string, le?: string) =>
    metrics.value(`stratum_http_request_duration_seconds${ending}`, { route: `${P}/slow`, ...(le && { le }) })
  t.equal(at('_count'), 3)
  t.equal(at('_bucket', '0.025'), 0, 'none took less than the timer')
  t.equal(at('_bucket', '+Inf'), 3)
  t.ok((at('_sum') ?? 0) >= 0.085 && (at('_sum') ?? 0) < 20, `${at('_sum')} s`)
  const bounds = metrics
    .series('stratum_http_request_duration_seconds_bucket', { route: `${P}/slow` })
    .map(({ labels: { le } }) => le)
  t.same([bounds[0], bounds.at(-2)], ['0.0005', '10'])
})

t.test('refusals are counted by the gate that refused, and wrong credentials beside', async (t) => {
  const rest = probe('rest', ['/tenant'], TENANT_ROUTES)
  const { agent } = await openAgent(t, {
    extraAreas: [rest.plugin],
    config: {
      api_allowed_ips: '127.0.0.1,192.0.2.0/24',
      api_auth_fail_limit: '2',
      api_rate_burst: '3',
      api_rate_limit: '1',
    },
  })
  agent.credentials.keys.set('tk', tenantKeys)
  const from = (host: number) => ({ from: `192.0.2.${host}` })
  const codes = async (...asked: Promise<{ status: number }>[]) =>
    (await Promise.all(asked)).map(({ status }) => status)

  t.same(await codes(ask(agent, 'GET', `${P}/status`, { from: '198.51.100.1' })), [403])
  t.same(await codes(ask(agent, 'GET', `${P}/status`, { ...from(1), token: null })), [401])
  t.same(await codes(ask(agent, 'GET', `${P}/status`, { ...from(2), token: 'wrong' })), [401])
  t.same(await codes(ask(agent, 'GET', `${P}/status`, { ...from(2), token: 'wrong' })), [401])
  t.same(await codes(ask(agent, 'GET', `${P}/status`, from(2))), [429], 'two wrong ones block')
  for (let n = 0; n < 3; n++) await ask(agent, 'GET', `${P}/health`, from(3))
  t.same(await codes(ask(agent, 'GET', `${P}/health`, from(3))), [429], 'the bucket is empty')
  t.same(await codes(ask(agent, 'GET', `${P}/tenant/${OTHER}`, { ...from(4), token: TENANT_KEY })), [403])
  t.same(await codes(ask(agent, 'GET', `${P}/dns/zones`, from(5)), ask(agent, 'GET', `${P}/nope`, from(5))), [404, 404])

  const metrics = await scrape(agent)
  const refused = Object.fromEntries(
    metrics.series('stratum_gate_refusals_total').map(({ labels: { gate }, value }) => [gate, value]),
  )
  t.same(refused, {
    allow_list: 1,
    lockout: 1,
    rate: 1,
    bearer: 3,
    scope: 1,
    plan: 0,
    member: 0,
    unknown_path: 2,
    freeze: 0,
    subsystem: 0,
  })
  t.equal(metrics.value('stratum_authentication_failures_total', { transport: 'rest' }), 2, 'none at all is no failure')
  t.equal(metrics.value('stratum_blocked_addresses'), 1)
  agent.gates.lockout.unblock('192.0.2.2')
  t.equal((await scrape(agent)).value('stratum_blocked_addresses'), 0)
})

t.test('a licence that is not there shows in the gates it closes', async (t) => {
  const { agent } = await openAgent(t, { licensed: false })
  t.equal((await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop' } })).status, 403)
  t.equal((await ask(agent, 'GET', `${P}/dns/zones`)).status, 403)
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_gate_refusals_total', { gate: 'freeze' }), 1)
  t.equal(metrics.value('stratum_gate_refusals_total', { gate: 'plan' }), 1)
})

t.test('nobody can make series by asking for paths and methods that are not there', async (t) => {
  const { agent } = await openAgent(t)
  const port = await servePlain(t, agent)
  const before = (await scrape(agent)).series('stratum_http_requests_total').length
  for (let n = 0; n < 1000; n++) {
    const path = `/${['api/v1', 'control/v1', 'x'][n % 3]}/${randomBytes(12).toString('hex')}`
    const token = n % 2 === 0 ? null : undefined
    await ask(agent, n % 5 === 0 ? 'POST' : 'GET', path, token === undefined ? {} : { token })
  }
  const line = await plainLine(t, port)
  for (const [method, path] of [
    ['PROPFIND', `${P}/health`],
    ['MKCALENDAR', '/x'],
    ['GET', '/%E0%A4%A'],
    ['GET', `${P}/rules/${'9'.repeat(300)}`],
  ]) {
    line.write(`${method} ${path} HTTP/1.1\r\nHost: node\r\n\r\n`)
    const { status = 0 } = (await line.next()) ?? {}
    t.ok(status >= 400 && status < 500, `${method} ${path?.slice(0, 30)}: ${status}`)
  }
  const metrics = await scrape(agent)
  const made = metrics.series('stratum_http_requests_total')
  t.same([...new Set(made.map(({ labels: { route } }) => route))], ['unknown'])
  t.same(new Set(made.map(({ labels: { method } }) => method)), new Set(['GET', 'POST', 'other']))
  t.ok(made.length - before <= 8, `${made.length} series: ${JSON.stringify(made.map(({ labels }) => labels))}`)
  t.equal(
    made.reduce((sum, { value }) => sum + value, 0),
    1004,
    'none of them was missed',
  )
})

t.test('two agents in one process count apart', async (t) => {
  const [one, two] = [await openAgent(t), await openAgent(t)]
  await ask(one.agent, 'GET', `${P}/health`)
  t.equal((await answers(one.agent, { route: `${P}/health` })).length, 1)
  t.equal((await answers(two.agent, { route: `${P}/health` })).length, 0)
})
