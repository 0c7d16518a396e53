/** What drift detection finds, and when it repairs it. */
import t from 'tap'
import type { Entry } from '../../../dataplane/entry.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal, UncertainOutcome } from '../../../dataplane/plane.ts'
import { type AreaPlugin, defineArea } from '../../area.ts'
import { bench, KEY, RULE } from './drift-bench.ts'

/** An area whose entries a test holds. */
function area(name: string, all: () => Iterable<Entry>): AreaPlugin {
  return defineArea(import.meta.url, {
    name,
    prefixes: [`/${name}`],
    routes() {},
    desired: { all, one: () => [...all()] },
  })
}
const element = (area: string, text: string): Entry => ({
  kind: 'element',
  key: `${area}/${text}`,
  set: area,
  element: text,
})

t.test('what somebody deleted, changed or added is repaired, told once, logged and counted', async (t) => {
  const { agent, plane, call, beat, meddle, drifts, logged, status } = await bench(t)
  await call('POST', '/api/v1/rules', RULE)
  await call('POST', '/api/v1/rules', RULE)
  const before = new Map(plane.entries)
  meddle(KEY)
  const [second, ...rest] = [...plane.entries.values()].filter(({ key }) => key === 'firewall/2')
  if (second?.kind !== 'rule' || rest.length > 0) throw new TypeError('there is one second rule')
  plane.entries.set('firewall/2', { ...second, text: 'accept' })
  plane.entries.set('firewall/foreign', { ...second, key: 'firewall/foreign' })
  await beat()
  t.same([...plane.entries].sort(), [...before].sort())
  const done = { added: 1, changed: 1, removed: 1 }
  const found = [
    { key: KEY, state: 'missing' },
    { key: 'firewall/2', state: 'changed' },
    { key: 'firewall/foreign', state: 'foreign' },
  ]
  const [data, ...more] = drifts() as { found: { key: string }[] }[]
  t.match(data, { repaired: true, differing: 3, ...done })
  t.same(
    data?.found.sort((a, b) => (a.key < b.key ? -1 : 1)),
    found,
  )
  t.same(more, [])
  const [event] = agent.outbox.after(0, 100).filter(({ type }) => type === 'agent.drift')
  t.match(event, { area: 'core', resource: '/api/v1/status', actor: { kind: 'system', label: 'drift' } })
  const warned = logged.filter(({ msg }) => msg === 'somebody else changed what is ours in the kernel')
  t.match(warned, [{ cause: 'drift', result: 'repaired', ...done, found: { length: 3 } }])
  t.match(await agent.metrics.text(), /reconcile_repaired_total\{area="firewall",change="removed"\} 1/)
  t.match(await agent.metrics.text(), /reconcile_passes_total\{cause="drift",result="repaired"\} 1/)
  t.equal(await status(), 'running')
})

t.test('many are counted and twenty are named', async (t) => {
  const { plane, call, beat, meddle, drifts } = await bench(t)
  const rules = Array.from({ length: 50 }, () => RULE)
  t.equal((await call('POST', '/api/v1/rules/batch', { rules })).status, 200)
  meddle(...plane.entries.keys())
  const held = 50 + 3
  await beat()
  t.match(drifts(), [{ differing: held, added: held, found: { length: 20 } }])
})

t.test('without a sign of others nothing is compared but once every drift_interval', async (t) => {
  const { agent, plane, call, beat, time } = await bench(t)
  await call('POST', '/api/v1/rules', RULE)
  const set = async (value: string) => {
    agent.overrides.change(({ config }) => void Object.assign(config, { drift_interval: value }))
    await agent.config.reload()
  }
  let observed = 0
  const observe = plane.observe
  plane.observe = () => {
    observed++
    return observe()
  }
  const unnoticed = () => void plane.entries.delete(KEY)
  unnoticed()
  for (let n = 0; n < 59; n++) await beat()
  t.equal(observed, 0)
  await beat()
  t.equal(observed, 1, 'at 60 s')
  t.ok(plane.entries.has(KEY))
  unnoticed()
  await set('5')
  for (let n = 0; n < 4; n++) await beat()
  t.notOk(plane.entries.has(KEY))
  await beat()
  t.ok(plane.entries.has(KEY), 'a changed interval takes effect at once')
  await set('0')
  unnoticed()
  plane.meddled = true
  time.ms += 1e9
  await beat()
  t.notOk(plane.entries.has(KEY), '0: never')
  await set('60')
  await beat()
  t.ok(plane.entries.has(KEY))
})

t.test('others who commit all the time do not make the agent compare all the time', async (t) => {
  const { plane, time, beat } = await bench(t)
  let observed = 0
  plane.observe = async () => {
    observed++
    time.ms += 500
    return [...plane.entries.values()]
  }
  plane.meddled = true
  for (let n = 0; n < 40; n++) await beat()
  t.ok(observed >= 2 && observed <= 5, `${observed} times in 40 s, at half a second each`)
})

t.test('who fights with the agent is answered later and later, and the status says so', async (t) => {
  const { agent, plane, call, time, beat, meddle, drifts, status } = await bench(t)
  await call('POST', '/api/v1/rules', RULE)
  await call('POST', '/api/v1/rules', RULE)
  const start = time.ms
  const repaired: number[] = []
  for (let second = 0; second < 70; second++) {
    if (plane.entries.has(KEY)) meddle(KEY)
    plane.meddled = true
    await beat()
    if (plane.entries.has(KEY)) repaired.push((time.ms - start) / 1000)
    else {
      t.match(agent.troubles(), [/changed by somebody else again and again, repaired anew within \d+ s: firewall\/1$/])
      t.match(agent.ailing('firewall'), /again and again/)
      t.ok(agent.ailing('dataplane'))
      t.notOk(agent.ailing('node'))
      t.equal(await status(), 'degraded')
    }
  }
  t.same(repaired, [1, 2, 4, 8, 16, 32, 64])
  t.equal(drifts().length, repaired.length, 'one event a repair')
  meddle('firewall/2')
  await beat()
  t.ok(plane.entries.has(KEY) && plane.entries.has('firewall/2'), 'another object does not wait for that')
  meddle(KEY)
  await beat()
  t.notOk(plane.entries.has(KEY))
  t.equal((await call('POST', '/api/v1/rules', RULE)).status, 201, 'nor does a change')
  plane.meddled = false
  for (let n = 0; n < 310 && !plane.entries.has(KEY); n++) await beat()
  t.ok(plane.entries.has(KEY), 'repaired in the end, though nobody was there any more')
  t.equal(await status(), 'running')
  for (let n = 0; n < 11; n++) await beat(60)
  meddle(KEY)
  await beat()
  meddle(KEY)
  await beat()
  t.ok(plane.entries.has(KEY), 'after a quiet period it is repaired at once again')
})

t.test(
  'a repair that fails: degraded, tried again after 1 s, 2 s, 4 s, told at first and when it is over',
  async (t) => {
    const { agent, plane, call, time, beat, meddle, drifts, logged, status } = await bench(t)
    await call('POST', '/api/v1/rules', RULE)
    const apply = plane.apply
    const start = time.ms
    const tried: number[] = []
    plane.apply = async () => {
      tried.push((time.ms - start) / 1000)
      throw new KernelRefusal('Device or resource busy')
    }
    meddle(KEY)
    for (let n = 0; n < 20; n++) {
      plane.meddled = true
      await beat()
    }
    t.same(tried, [1, 2, 4, 8, 16])
    t.same(agent.troubles(), ['the kernel does not hold what is stored: Device or resource busy'])
    t.match(agent.ailing('firewall'), /Device or resource busy/)
    t.notOk(agent.ailing('node'))
    t.equal(await status(), 'degraded')
    t.match(drifts(), [{ repaired: false, differing: 1, added: 0, error: /Device or resource busy/ }])
    t.equal(logged.filter(({ level }) => level === 50).length, 1, 'logged once')
    plane.apply = apply
    await beat(12)
    t.ok(plane.entries.has(KEY))
    t.same(agent.troubles(), [])
    t.notOk(agent.ailing('firewall'))
    t.match(drifts(), [{}, { repaired: true, added: 1 }])
    t.match(logged.at(-1), { level: 40, result: 'repaired' })
    t.ok(logged.some(({ msg, attempts }) => msg === 'the kernel holds again what is stored' && attempts === 5))
  },
)

t.test('a first pass that failed is made up for without a change coming by', async (t) => {
  const plane = fakePlane()
  const { apply } = plane
  plane.apply = async () => {
    throw new UncertainOutcome('no helper')
  }
  const { agent, beat, drifts, status } = await bench(t, { plane })
  t.equal(await status(), 'degraded')
  plane.apply = apply
  await beat()
  t.same(agent.troubles(), [])
  t.ok(plane.entries.size > 0)
  t.same(drifts(), [], 'nobody else had a hand in it')
})

t.test(
  'what one area suffers does not keep another from being repaired, nor its changes from being made',
  async (t) => {
    const plane = fakePlane()
    const { apply } = plane
    const wanted = { one: [element('one', 'a')], two: [element('two', 'b')] }
    const broken = { rows: false }
    const two = () => {
      if (broken.rows) throw new Error('a row cannot be read')
      return wanted.two
    }
    let refused = 0
    plane.apply = async (diff) => {
      if (!diff.some(({ after }) => after?.key.startsWith('one/'))) return apply(diff)
      refused++
      throw new KernelRefusal('no such device')
    }
    const { agent, call, beat, meddle, drifts } = await bench(t, {
      plane,
      extraAreas: [area('one', () => wanted.one), area('two', two)],
    })
    t.same([...plane.entries.keys()].includes('two/b'), true, 'at the start already')
    t.match(agent.ailing('one'), /no such device/)
    t.notOk(agent.ailing('two') ?? agent.ailing('firewall'))
    t.ok(agent.ailing('dataplane'))
    const before = refused
    t.equal((await call('POST', '/api/v1/rules', RULE)).status, 201)
    t.equal(refused, before, 'a change elsewhere does not even wait for an attempt')
    meddle('two/b', KEY)
    await beat(2)
    t.ok(plane.entries.has('two/b') && plane.entries.has(KEY))
    t.match(drifts(), [{ repaired: false, added: 2, error: 'one: no such device' }])
    plane.apply = apply
    broken.rows = true
    plane.entries.delete(KEY)
    await beat(5)
    t.same([...plane.entries.keys()].sort(), [...new Set([...plane.entries.keys(), 'one/a', 'two/b', KEY])].sort())
    t.match(agent.ailing('two'), /a row cannot be read/)
    t.notOk(agent.ailing('one'))
    broken.rows = false
    await beat(5)
    t.same(agent.troubles(), [])
  },
)
