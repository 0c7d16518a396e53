import t from 'tap'
import { NO_CONNECTIONS } from '../../../dataplane/connections.ts'
import type { Entry } from '../../../dataplane/entry.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { accelerated } from '../accelerated.ts'
import { desired } from '../desired.ts'
import { linear } from '../linear.ts'
import { createRule, scheduleRule, setDefault } from '../rules.ts'
import { pending, rules } from '../tables.ts'
import { firewall } from './area.ts'
import { config, database } from './database.ts'

const LIMIT = { rules: 100 }
const chainOf = (entries: readonly Entry[], name: string) =>
  entries.flatMap((entry) => (entry.kind === 'chain' && entry.chain === name ? [entry.rules] : []))[0]

t.test('who judges is told by what the plane carries out', async (t) => {
  t.equal(desired(fakePlane({ classifier: true }).kinds), accelerated)
  t.equal(desired(fakePlane().kinds), linear)
})

t.test('fw-16 fw-18 fw-21 fw-24 D66 a rule, its place and what it matches', async (t) => {
  const db = database(t)
  const cases: [Parameters<typeof createRule>[1], object][] = [
    [{ action: 'drop' }, {}],
    [
      { action: 'accept', protocol: 'icmp', dest_ip: '10.0.0.0/8' },
      { protocol: 'icmp', dest: { text: '10.0.0.0/8' } },
    ],
    [{ action: 'accept', dest_port: 53 }, { destPorts: [53, 53] }],
    [
      { action: 'drop', protocol: 'tcp', source_port: 9, dest_port: 1, dest_port_max: 7 },
      { protocol: 'tcp', sourcePort: 9, destPorts: [1, 7] },
    ],
    [
      {
        action: 'drop',
        source_ip: 'FD00::1',
        mac: 'AA-BB-CC-00-11-22',
        interface: 'eth0.1',
        level: 'mac',
        priority: 3,
      },
      { source: { text: 'fd00::1', family: 6 }, mac: 'aa:bb:cc:00:11:22', interface: 'eth0.1' },
    ],
  ]
  for (const [input] of cases) createRule(db, input, LIMIT)
  db.delete(pending).run()
  for (const [at, [input, match]] of cases.entries()) {
    const [entry] = accelerated.one(db, `rule/${at + 1}`, config(true))
    if (entry?.kind !== 'filter') throw new TypeError('a rule is a filter')
    t.match(entry, { key: `firewall/filter/${at + 1}`, id: at + 1, accept: input.action === 'accept', match })
    t.same(Object.keys(entry.match).sort(), Object.keys(match).sort(), 'what a rule does not name is absent')
    t.same(entry.rank, input.level === 'mac' ? [4, 3, at + 1] : [0, 0, at + 1])
    t.notOk('fresh' in entry || 'window' in entry)
  }
})

t.test('D70 windows in seconds, both ends included', async (t) => {
  const db = database(t)
  createRule(db, { action: 'drop' }, LIMIT)
  const window = () =>
    accelerated.one(db, 'rule/1', config(true)).map((entry) => entry.kind === 'filter' && entry.window)
  scheduleRule(db, '1', { from: '22:00', to: '06:30', daily: true })
  t.same(window(), [{ from: 79_200, to: 23_400, daily: true }])
  scheduleRule(db, '1', { from: '2030-01-01T00:00:00Z', to: '2030-01-01T01:00:00+00:00' })
  t.same(window(), [{ from: 1_893_456_000, to: 1_893_459_600, daily: false }])
})

t.test('D71 a default deny is the classifier, what it spares is marked by nft', async (t) => {
  const db = database(t)
  const render = (failsafe: boolean, allowed?: string[]) => accelerated.one(db, 'default', config(failsafe, allowed))
  const base = (entries: Entry[]) => chainOf(entries, 'firewall')
  const accept = (entries: Entry[]) =>
    entries.flatMap((entry) => (entry.kind === 'filter_default' ? [entry.accept] : []))
  t.same(accept(render(true)), [true])
  t.equal(chainOf(render(true), 'firewall_spared'), undefined, 'allow marks nothing')
  t.match(base(render(true)), [/^ct state established,related accept$/, /drop$/, /drop$/])
  setDefault(db, 'deny')
  t.same(accept(render(true)), [false])
  t.equal(base(render(true))?.at(-1), 'jump firewall_spared')
  const marks = chainOf(render(true), 'firewall_spared') ?? []
  t.equal(marks[0], 'meta priority ffff:5354 meta priority set none', 'a packet brings no mark')
  t.ok(marks.slice(1).every((line) => line.endsWith(' meta priority set ffff:5354')))
  const spared = (chainOf(linear.one(db, 'default', config(true)), 'firewall_default') ?? []).slice(0, -1)
  t.same(
    marks.slice(1).map((line) => line.replace('meta priority set ffff:5354', 'accept')),
    spared,
    'exactly what nft spares by itself',
  )
  t.same(accept(render(false)), [false])
  t.equal(chainOf(render(false), 'firewall_spared'), undefined, 'the literal deny marks nothing')
  t.notOk(base(render(false))?.includes('jump firewall_spared'))
})

t.test('one agrees with all', async (t) => {
  const db = database(t)
  for (const action of ['drop', 'accept', 'drop'] as const) createRule(db, { action }, LIMIT)
  db.insert(rules).values({ action: 'drop', chain: 'input', tie: 9 }).run()
  setDefault(db, 'deny')
  const all = new Map(Array.from(accelerated.all(db, config(true)), (entry) => [entry.key, entry]))
  const refs = ['default', 'established', 'rule/1', 'rule/2', 'rule/3', 'rule/4', 'rule/99']
  const ones = refs.flatMap((ref) => accelerated.one(db, ref, config(true)))
  t.equal(ones.length, 6, 'the base chain, the marks, the default, three rules')
  for (const entry of ones) t.same(entry, all.get(entry.key), entry.key)
  t.equal(all.size, ones.length + 1, 'and the output chain')
})

t.test('D72 a new drop is fresh until its connections are ended', async (t) => {
  const area = await firewall(t, { lane: 'classifier' })
  const { plane, create, filters, call } = area
  const fresh = () => filters().map(({ id, fresh = false }) => [id, fresh])
  // The plane in memory knows no connections, so what is pending stays so.
  await create({ action: 'drop', dest_port: 1 })
  await create({ action: 'accept', dest_port: 2 })
  t.same(fresh(), [
    [1, true],
    [2, false],
  ])
  await call('PUT', '/api/v1/rules/2', { action: 'drop', dest_port: 2 })
  t.same(fresh(), [
    [1, true],
    [3, true],
  ])
  Object.assign(plane, { connections: NO_CONNECTIONS })
  await create({ action: 'accept', dest_port: 4 })
  while (filters().some((rule) => rule.fresh)) await new Promise((resolve) => setTimeout(resolve, 10))
  t.same(fresh(), [
    [1, false],
    [3, false],
    [4, false],
  ])
})

t.test('D70 D72 a drop is fresh again when its window opens', async (t) => {
  const clock = { at: new Date('2030-01-01T07:59:59Z') }
  const plane = fakePlane({ classifier: true })
  const { create, control, filters, agent } = await firewall(t, { plane, now: () => clock.at })
  await create({ action: 'drop' })
  await control('PUT', '/control/v1/firewall/rules/1/schedule', { from: '08:00', to: '09:00', daily: true })
  agent.store.write.delete(pending).run()
  await control('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  t.match(filters(), [{ fresh: true }], 'control: nobody has told the plane yet')
  await agent.pipeline.exclusively(() => agent.drift.bring('configuration'))
  t.notOk('fresh' in (filters()[0] ?? {}), 'control')
  clock.at = new Date('2030-01-01T08:00:00Z')
  while (filters()[0]?.fresh !== true) await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(filters(), [{ id: 1, fresh: true, window: { daily: true } }])
})

t.test('fw-44 D74 a rule that is left out is not in the classifier, a softened one is', async (t) => {
  const { agent, filters } = await firewall(t, { lane: 'classifier' })
  agent.store.write
    .insert(rules)
    .values([
      { action: 'drop', chain: 'input', tie: 1 },
      { action: 'reject', tie: 2 },
      { action: 'drop', protocol: 'gre', tie: 3 },
    ])
    .run()
  await agent.pipeline.exclusively(() => agent.drift.bring('configuration'))
  t.match(filters(), [{ id: 2, accept: false }])
  t.equal(filters().length, 1)
})
