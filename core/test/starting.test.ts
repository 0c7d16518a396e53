/** An agent that answers before its data plane is open and before the kernel holds what is stored. */

import t from 'tap'
import { scratch, TOKEN } from '../../test/build.ts'
import { early, waits } from '../../test/early.ts'
import { stateOf } from '../agent-state.ts'
import { defineArea } from '../area.ts'
import { openStages } from '../stages.ts'

const P = '/api/v1'

t.test('every read is answered from the store while the data plane opens, or says what it needs', async (t) => {
  const { agent, call } = await early(t)
  agent.start().catch(() => {})
  let told = 0
  for (const { method, url, config } of agent.routes) {
    if (![method].flat().includes('GET') || config?.after !== undefined || url.endsWith('/events')) continue
    const { status, text } = await call('GET', url.replace(/:[a-z_]+/gi, '1').replace('*', '1'))
    t.ok(status < 500, `GET ${url}: ${status} ${text.slice(0, 100)}`)
    told++
  }
  t.ok(told > 40, `${told} reads`)
})

t.test(
  'changes wait for the first pass, in their order; reads go on, and everybody is told what happens',
  async (t) => {
    const { agent, plane, open, call } = await early(t)
    const started = agent.start()
    const { body } = await call('GET', `${P}/status`)
    t.match(body, { status: 'starting', warnings: ['the agent is starting: it opens the data plane'] })
    t.equal((body.acceleration as { summary: string }).summary, 'the agent is starting: it opens the data plane')
    const metrics = await agent.app.inject({ url: `${P}/metrics`, headers: { authorization: `Bearer ${TOKEN}` } })
    t.notMatch(metrics.body, /stratum_area_up\{/, 'which areas the node can carry is not known')
    t.equal(agent.ailing(''), 'the agent is starting: it opens the data plane')
    t.equal(agent.ailing('firewall'), agent.ailing(''))
    t.equal((await call('GET', `${P}/health`)).status, 200)
    const first = call('POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.1' })
    const measured = call('GET', `${P}/bridges`)
    t.ok(await waits(first), 'a change waits')
    t.ok(await waits(measured), 'what the kernel is asked for waits')
    t.equal((await call('GET', `${P}/rules`)).status, 200)
    t.equal(plane.entries.size, 0, 'nothing is in the kernel yet')
    open()
    t.equal((await measured).status, 200)
    await started
    t.equal((await first).status, 403, 'no licence: the gates judge it as ever')
    await agent.licence.evaluate()
    t.equal((await call('POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.1' })).status, 201)
    t.equal(stateOf(agent), 'running')
    t.equal(agent.ailing('firewall'), undefined)
  },
)

t.test('credentials: an area that keeps keys is waited for, wrong ones of the core are refused at once', async (t) => {
  const { agent, open, call } = await early(t)
  agent.start().catch(() => {})
  const as = (token: string) => call('GET', `${P}/rules`, undefined, { authorization: `Bearer ${token}` })
  t.equal((await as('nt_wrong')).status, 401)
  t.equal((await as('ok_0123456789ab_wrong')).status, 401)
  const tenant = as('tk_0123456789ab_wrong')
  t.ok(await waits(tenant))
  const member = call('GET', `${P}/rules`, undefined, { 'x-node': 'other' })
  t.ok(await waits(member))
  open()
  t.equal((await tenant).status, 401)
  t.equal((await member).status, 404)
})

t.test('what waits when the agent is told to stop is refused and changes nothing', async (t) => {
  const stateDir = scratch(t)
  const { agent, call } = await early(t, { stateDir })
  agent.start().catch(() => {})
  const change = call('POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.1' })
  t.ok(await waits(change))
  agent.stages.stop()
  const { status, text, headers } = await change
  t.equal(status, 503)
  t.match(text, /the agent stops; try again/)
  t.equal(headers['retry-after'], '1')
  t.equal((await call('POST', `${P}/rules`, { action: 'drop' })).status, 503, 'nor does what comes later wait')
})

t.test('nobody waits longer than the limit, and says why', async (t) => {
  const stages = openStages({ longestMs: 20 })
  await t.rejects(stages.until('start') ?? Promise.resolve(), {
    status: 503,
    message: 'the agent is starting: it opens the data plane; try again',
  })
  stages.reached('plane')
  t.equal(stages.until('plane'), undefined)
  await t.rejects(stages.until('start') ?? Promise.resolve(), { message: /brings the kernel to what is stored/ })
  stages.reached('start')
  t.equal(stages.doing(), undefined)
})

t.test('an agent that is closed before it has started lets go of everything', async (t) => {
  const { agent } = await early(t)
  await agent.close()
  await t.rejects(agent.start(), /closed before it started/)
})

t.test('an agent that is closed while its plane opens closes the plane that comes too late', async (t) => {
  const { agent, plane, open } = await early(t)
  let closed = 0
  const { close } = plane
  plane.close = async () => {
    closed++
    await close()
  }
  const started = agent.start()
  await agent.close()
  await t.rejects(started, /closed before it started/)
  t.equal(closed, 0)
  open()
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(closed, 1)
})

t.test('an agent that is closed while its areas start ends those that have, and starts no other', async (t) => {
  const did: string[] = []
  const area = (name: string, start: () => Promise<unknown>) =>
    defineArea(import.meta.url, {
      name,
      summary: name,
      prefixes: [`/${name}`],
      routes() {},
      async start() {
        did.push(`${name} starts`)
        await start()
        return () => void did.push(`${name} ends`)
      },
    })
  let closed: Promise<void> = Promise.resolve()
  const first = area('early', async () => {
    closed = agent.close()
  })
  const second = area('late', async () => {})
  const { agent, open } = await early(t, { extraAreas: [first, second], only: ['early', 'late'] })
  open()
  await agent.start()
  await closed
  t.same(did, ['early starts', 'early ends'])
})
