/** An agent that answers before its data plane is open and before the kernel holds what is stored. */

import pino from 'pino'
import t, { type Test } from 'tap'
import { type FakePlane, fakePlane } from '../../dataplane/plane.fake.ts'
import { type Answer, scratch, TOKEN } from '../../test/build.ts'
import type { Agent } from '../agent.ts'
import { stateOf } from '../agent-state.ts'
import { assemble } from '../app.ts'
import { hashSecret } from '../gates/bearer.ts'
import { openStages } from '../stages.ts'
import { openOverrides } from '../state/overrides.ts'

const P = '/api/v1'

interface Early {
  agent: Agent
  plane: FakePlane
  /** Lets the data plane open. */
  open(): void
  call(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<Answer>
}

/** An agent that was assembled; its plane opens when the test says so. */
async function early(t: Test, stateDir = scratch(t)): Promise<Early> {
  openOverrides(`${stateDir}/overrides.json`).change((content) => {
    content.tokenHash = hashSecret(TOKEN).toString('hex')
  })
  const plane = fakePlane({ classifier: true })
  let open: (plane: FakePlane) => void = () => {}
  const opening = new Promise<FakePlane>((resolve) => {
    open = resolve
  })
  const agent = await assemble({
    stateDir,
    configFile: `${stateDir}/none.json`,
    environment: {},
    log: pino({ level: 'silent' }),
    openPlane: () => opening,
    clock: () => performance.now(),
  })
  t.teardown(() => agent.close())
  return {
    agent,
    plane,
    open: () => open(plane),
    async call(method, url, payload, headers = {}) {
      const answer = await agent.app.inject({
        method,
        url,
        headers: { authorization: `Bearer ${TOKEN}`, ...headers },
        ...(payload && { payload }),
      })
      const isJson = String(answer.headers['content-type']).startsWith('application/json')
      return {
        status: answer.statusCode,
        headers: answer.headers,
        text: answer.body,
        body: isJson ? answer.json() : {},
      }
    },
  }
}

/** Whether `work` has not ended after everything that could end it has had its turn. */
async function waits(work: Promise<unknown>): Promise<boolean> {
  const still = Symbol('waits')
  const turns = new Promise((resolve) => setTimeout(() => resolve(still), 50))
  return (await Promise.race([work, turns])) === still
}

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
  const { agent, call } = await early(t, stateDir)
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
