/** The licence in the event stream: what is told, once each, and across restarts. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Value } from 'typebox/value'
import type { BuildAgentOptions, BuiltAgent } from '../../../test/build.ts'
import { scratch } from '../../../test/build.ts'
import { DAY_MS, unlicensed } from '../../../test/rest/vendor.ts'
import { coreEvents } from '../../state/core-events.ts'
import { controlOf } from '../../test/control.ts'

const LICENSE = '/control/v1/license'

async function open(t: Parameters<typeof unlicensed>[0], options: BuildAgentOptions = {}) {
  const built = await unlicensed(t, options)
  const control = await controlOf(t, built.agent)
  let since = built.agent.outbox.bounds().latest
  return {
    ...built,
    install: (text: string) => control('PUT', LICENSE, { text }),
    evaluate: () => control('POST', `${LICENSE}/evaluate`),
    /** What was told since this was asked last. */
    async news() {
      await built.agent.licenceNews.look()
      const events = told(built).filter(({ id }) => id > since)
      since = built.agent.outbox.bounds().latest
      return events.map(({ type, data }) => [type, data] as const)
    },
  }
}

function told({ agent }: BuiltAgent) {
  const events = agent.outbox.after(0, 1000)
  for (const { type, data } of events) {
    const schema = coreEvents[type]
    if (schema === undefined || !Value.Check(schema, data)) throw new Error(`${type} is not declared so`)
  }
  return events
}

const changed = (from: string, to: string, hardware_grace = false) =>
  ['license.state_changed', { from, to, hardware_grace }] as const

t.test(
  'lic-02 lic-16 D112 a licence that is installed is told as GET /license shows it, and so is its renewal',
  async (t) => {
    const node = await open(t)
    t.same(await node.news(), [], 'nothing, and nothing to tell')
    const answer = await node.install(node.sign())
    t.equal(answer.status, 200)
    t.same(await node.news(), [['license.updated', await node.view()], changed('none', 'active')])
    t.equal(answer.headers['x-event-id'], '2')
    t.match(told(node)[0], { area: 'core', resource: '/api/v1/license', actor: { kind: 'cli', label: 'root' } })
    t.equal(
      (await node.install(node.sign({ serial_number: 'LIC-2', valid_until: '2031-01-31T00:00:00Z' }))).status,
      200,
    )
    t.match(await node.news(), [['license.updated', { serial_number: 'LIC-2' }]])
    t.same(await node.news(), [], 'once')
  },
)

t.test('lic-05 lic-15 lic-16 state-10 each state that the clock brings is told once', async (t) => {
  const node = await open(t)
  await node.install(node.sign())
  await node.news()
  const steps: [number, readonly unknown[]][] = [
    [69, []],
    [2, [changed('active', 'warning')]],
    [28, []],
    [2, [changed('warning', 'grace')]],
    [12, []],
    [2, [changed('grace', 'frozen')]],
    [300, []],
  ]
  for (const [days, expected] of steps) {
    node.clock.ms += days * DAY_MS
    t.same(await node.news(), expected, `${days} days later`)
  }
  await node.install(node.sign({ valid_until: '2035-01-31T00:00:00Z' }))
  t.same((await node.news())[1], changed('frozen', 'active'), 'a renewal thaws')
})

t.test('lic-14 other hardware is told when it shows, and when it freezes', async (t) => {
  const node = await open(t)
  await node.install(node.sign({ hardware_id: 'f'.repeat(32) }))
  t.same((await node.news())[1], changed('none', 'active', true))
  node.clock.ms += 15 * DAY_MS
  t.same(await node.news(), [changed('active', 'frozen', true)])
})

t.test('what changed while the agent was down is told by the next one, and only by it', async (t) => {
  const stateDir = scratch(t)
  const first = await open(t, { stateDir })
  await first.install(first.sign())
  const { config, clock } = first
  await first.agent.close()
  const again = (days: number) => {
    const ms = clock.ms + days * DAY_MS
    return open(t, { stateDir, config, now: () => new Date(ms) })
  }
  const second = await again(90)
  t.same(await second.news(), [changed('active', 'warning')])
  await second.agent.close()
  const third = await again(91)
  t.same(await third.news(), [])
  await third.agent.close()
})

t.test('D24 a bad signature is refused, logged and told, and says nothing of a key', async (t) => {
  const node = await open(t)
  await node.install(node.sign())
  await node.news()
  const forged = JSON.parse(node.sign({ plan: 'suite' }))
  forged.signature = JSON.parse(node.sign()).signature
  const answer = await node.install(JSON.stringify(forged))
  t.match(answer, { status: 400, body: { error: /^bad licence signature/ } })
  t.match(await node.news(), [['license.violation', { error: /^bad licence signature/ }]])
  t.match(node.logged.at(-1), { level: 50, reason: /^bad licence signature/ })
  t.match(await node.view(), { plan: 'fabric', state: 'active' }, 'the old one stays')
  for (const text of ['nonsense', '{}']) t.equal((await node.install(text)).status, 400)
  t.same(await node.news(), [], 'what is no licence at all is told to whoever sent it')
})

t.test(
  'D24 an installed file that was tampered with counts as none: told and logged once, not at every start',
  async (t) => {
    const stateDir = scratch(t)
    const first = await open(t, { stateDir })
    await first.install(first.sign())
    const { config, clock } = first
    await first.agent.close()
    const forged = JSON.parse(first.sign({ valid_until: '2099-01-01T00:00:00Z' }))
    forged.signature = JSON.parse(first.sign()).signature
    writeFileSync(join(stateDir, 'license.json'), JSON.stringify(forged))
    for (const expected of [
      [['license.violation', { error: /^bad licence signature/ }], changed('active', 'none')],
      [],
    ]) {
      const next = await open(t, { stateDir, config, now: () => new Date(clock.ms) })
      t.match(await next.news(), expected)
      t.equal(next.logged.filter(({ level }) => level === 50).length, expected.length === 0 ? 0 : 1)
      t.same(await next.view(), { installed: false })
      await next.agent.close()
    }
  },
)

t.test('an evaluation is told like any licence', async (t) => {
  const node = await open(t)
  t.equal((await node.evaluate()).status, 200)
  t.match(await node.news(), [['license.updated', { plan: 'evaluation' }], changed('none', 'active')])
  t.equal((await node.evaluate()).status, 400)
  t.same(await node.news(), [])
})

t.test('news that cannot be stored are told when they can', async (t) => {
  const node = await open(t)
  await node.install(node.sign())
  await node.news()
  const { begin } = node.agent.store
  node.clock.ms += 75 * DAY_MS
  node.agent.store.begin = () => {
    throw new Error('disk I/O error')
  }
  t.same(await node.news(), [])
  node.agent.store.begin = begin
  t.same(await node.news(), [changed('active', 'warning')])
})
