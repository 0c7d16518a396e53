/** What the licence allows: its states, the freeze, the plan, all over HTTP and with a clock that is set. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { overSocket, startAgent } from '../../../test/agent.ts'
import { scratch } from '../../../test/build.ts'
import { netns } from '../../../test/netns.ts'
import { CLUSTER_FIVE } from '../../../test/rest/areas.ts'
import { ask, refusal } from '../../../test/rest/ask.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { DAY_MS, END, unlicensed } from '../../../test/rest/vendor.ts'
import { CAPABILITIES } from '../../licence/plan.ts'
import { listenControl } from '../../transport/listener.ts'

const P = '/api/v1'
const FROZEN = 'license inactive: changes are frozen until the license is renewed; existing workloads keep running'

t.test('lic-01 without a licence only installed:false is shown', async (t) => {
  const { agent, stateDir, sign } = await unlicensed(t)
  t.equal((await ask(agent, 'GET', `${P}/license`)).text, '{"installed":false}')
  const forged = sign().replace(/"signature":\s*"..../, '"signature":"AAAA')
  for (const text of ['', 'x', '{}', '{"payload":"e30=","signature":""}', forged, '\0'.repeat(100_000)]) {
    writeFileSync(join(stateDir, 'license.json'), text)
    agent.licence.reload()
    t.equal((await ask(agent, 'GET', `${P}/license`)).text, '{"installed":false}', text.slice(0, 30))
    await t.rejects(agent.licence.install(text), text.slice(0, 30))
  }
})

t.test('lic-02 lic-03 lic-04 lic-05 lic-06 lic-07 every field, with its type, in every state', async (t) => {
  const { agent, sign, clock, view } = await unlicensed(t)
  await agent.licence.install(sign({ max_bandwidth_gbps: 25, features: { dns: true, bgp: false } }))
  const states: [at: number, state: string, days: number, expired: boolean, mutations: boolean][] = [
    [END - 100 * DAY_MS, 'active', 100, false, true],
    [END - 30 * DAY_MS - 1000, 'active', 30, false, true],
    [END - 30 * DAY_MS, 'warning', 30, false, true],
    [END - 1000, 'warning', 0, false, true],
    [END, 'grace', -1, true, true],
    [END + 14 * DAY_MS - 1000, 'grace', -14, true, true],
    [END + 14 * DAY_MS, 'frozen', -14, true, false],
    [END + 400 * DAY_MS, 'frozen', -400, true, false],
  ]
  for (const [at, state, days_remaining, expired, mutations_allowed] of states) {
    clock.ms = at
    const body = await view()
    t.same(
      body,
      {
        installed: true,
        serial_number: 'LIC-1',
        plan: 'fabric',
        release_channel: 'stable',
        valid_until: '2030-01-31T00:00:00Z',
        state,
        days_remaining,
        expired,
        mutations_allowed,
        hardware_grace: false,
        max_bandwidth_gbps: 25,
        features: Object.fromEntries(CAPABILITIES.map((name) => [name, name === 'dns'])),
      },
      `${state} ${days_remaining}`,
    )
  }
})

t.test('lic-13 lic-15 changes pass until the freeze; lic-14 other hardware gets 14 days', async (t) => {
  const rule = { json: { action: 'drop' } }
  const byTime = await unlicensed(t)
  await byTime.agent.licence.install(byTime.sign())
  for (const at of [-100, -10, 0, 13.9]) {
    byTime.clock.ms = END + at * DAY_MS
    t.equal((await ask(byTime.agent, 'POST', `${P}/rules`, rule)).status, 201, `${at} days after the end`)
  }
  byTime.clock.ms = END + 14 * DAY_MS
  t.same(refusal(await ask(byTime.agent, 'POST', `${P}/rules`, rule)), [403, FROZEN])
  byTime.clock.ms = END - 50 * DAY_MS
  t.same(refusal(await ask(byTime.agent, 'POST', `${P}/rules`, rule)), [403, FROZEN], 'a clock set back thaws nothing')

  const foreign = await unlicensed(t)
  await foreign.agent.licence.install(foreign.sign({ hardware_id: 'f'.repeat(32) }))
  t.match(await foreign.view(), { state: 'active', hardware_grace: true, mutations_allowed: true })
  t.equal((await ask(foreign.agent, 'POST', `${P}/rules`, rule)).status, 201)
  foreign.clock.ms += 14 * DAY_MS
  t.match(await foreign.view(), { state: 'frozen', hardware_grace: true, mutations_allowed: false, expired: false })
  t.same(refusal(await ask(foreign.agent, 'POST', `${P}/rules`, rule)), [403, FROZEN])
})

t.test('lic-09 lic-10 lic-11 frozen: every change is refused but three, every read works', async (t) => {
  const built = await unlicensed(t)
  const { agent, clock, sign, hits } = built
  await agent.licence.install(sign())
  await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop' } })
  clock.ms = END + 20 * DAY_MS
  const spared = new Set(CLUSTER_FIVE.map(({ method, path }) => `${method} ${P}${path}`))
  const before = snapshot(built)
  let [changes, reads] = [0, 0]
  for (const { method, url } of agent.routes) {
    if (!url.startsWith(P)) continue
    for (const one of [method].flat()) {
      const answer = await ask(agent, one, url.replace(/:[a-z]+/g, '1'), { json: {} })
      if (one === 'GET' || one === 'HEAD' || spared.has(`${one} ${url}`)) {
        reads++
        // Tests serve without a certificate, so the public key is not there.
        t.equal(answer.status, url.endsWith('/tls/pubkey') ? 404 : 200, `${one} ${url}`)
      } else {
        changes++
        t.same(refusal(answer), [403, FROZEN], `${one} ${url}`)
      }
    }
  }
  t.ok(changes > 50 && reads > 50, `${changes} changes, ${reads} reads`)
  t.same(snapshot(built), before)
  const changed = hits.filter(({ method }) => method !== 'GET' && method !== 'HEAD')
  t.same(
    new Set(changed.map(({ route }) => route)),
    new Set(['/cluster/leave', '/cluster/join-codes/:id', '/cluster/members/:id']),
  )
})

t.test('lic-16 a renewal over the control socket lifts the freeze without a restart', async (t) => {
  const { agent, clock, sign, view } = await unlicensed(t)
  await agent.licence.install(sign())
  const socket = join(scratch(t), 'control.sock')
  const control = await listenControl(agent.app.routing.bind(agent.app), socket)
  t.teardown(() => control.close(0))
  const call = overSocket(socket)
  clock.ms = END + 15 * DAY_MS
  t.same(refusal(await call('POST', `${P}/rules`, { action: 'drop' })), [403, FROZEN], 'the socket is frozen as well')
  const before = (await view()).serial_number
  const early = sign({
    serial_number: 'LIC-3',
    valid_from: '2031-01-01T00:00:00Z',
    valid_until: '2032-01-01T00:00:00Z',
  })
  for (const text of ['x', early, sign().replace('payload', 'Payload')]) {
    t.equal((await call('PUT', '/control/v1/license', { text })).status, 400)
    t.match(await view(), { serial_number: before, state: 'frozen' }, 'a refused licence changes nothing')
  }
  const text = sign({ serial_number: 'LIC-2', valid_until: '2031-01-31T00:00:00Z' })
  t.match(await call('PUT', '/control/v1/license', { text }), { status: 200, body: { status: 'installed' } })
  t.match(await view(), { serial_number: 'LIC-2', state: 'active', mutations_allowed: true })
  t.equal((await ask(agent, 'POST', `${P}/rules`, { json: { action: 'drop' } })).status, 201)
})

t.test('lic-08 reading the licence sends nothing anywhere', async (t) => {
  const ns = netns(t, 'lic')
  const agent = await startAgent(t, { ns })
  // Packets and attempts: a connect() without a route counts as OutNoRoutes.
  const sent = () => [ns.run('cat', '/proc/net/snmp'), ns.run('cat', '/proc/net/snmp6')].map(attempts).join(' ')
  const before = sent()
  for (let i = 0; i < 20; i++)
    t.match(await agent.call('GET', `${P}/license`), { status: 200, body: { installed: true } })
  t.equal(sent(), before)
  t.throws(() => ns.run('bash', '-c', 'echo > /dev/tcp/192.0.2.1/443'), 'there is no route')
  t.not(sent(), before, 'an attempt would have shown')
})

/** The counters of outgoing packets and refused attempts in /proc/net/snmp and snmp6. */
function attempts(text: string): string {
  // Not Ip6OutRequests: the kernel itself asks for routers and groups on every new device.
  if (text.startsWith('Ip6')) return text.match(/^(Udp6OutDatagrams|Ip6OutNoRoutes)\s+\d+/gm)?.join(' ') ?? ''
  const rows = text.split('\n').map((line) => line.split(' '))
  const value = (group: string, name: string) => {
    const [names, values] = rows.filter(([first]) => first === `${group}:`)
    return `${name} ${values?.[names?.indexOf(name) ?? -1]}`
  }
  return [
    value('Ip', 'OutRequests'),
    value('Ip', 'OutNoRoutes'),
    value('Tcp', 'ActiveOpens'),
    value('Udp', 'OutDatagrams'),
  ].join(' ')
}
