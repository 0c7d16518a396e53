/** Drift detection beside what else goes on: changes, the licence, areas that are off, the operator, the end. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Entry } from '../../../dataplane/entry.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal, UncertainOutcome } from '../../../dataplane/plane.ts'
import { bench, KEY, RULE } from './drift-bench.ts'

const element = (area: string, text: string): Entry => ({
  kind: 'element',
  key: `${area}/${text}`,
  set: area,
  element: text,
})

t.test('a change waits for one pass at most, and a pass for the change before it', async (t) => {
  const { agent, plane, call, beat, meddle } = await bench(t)
  await call('POST', '/api/v1/rules', RULE)
  const order: string[] = []
  const gate = { open: () => {} }
  const observe = plane.observe
  plane.observe = async () => {
    order.push('pass begins')
    await new Promise<void>((resolve) => {
      gate.open = resolve
    })
    order.push('pass ends')
    return observe()
  }
  const apply = plane.apply
  plane.apply = (diff) => {
    order.push(`${diff.map(({ after }) => after?.key).join()} goes into the kernel`)
    return apply(diff)
  }
  meddle(KEY)
  const first = beat()
  const checks = [agent.drift.check({ dryRun: true }), agent.drift.check({ dryRun: true })]
  await agent.drift.beat()
  while (order.length === 0) await turn()
  const change = call('POST', '/api/v1/rules', RULE)
  while (agent.pipeline.depth() < 2) await turn()
  t.same(order, ['pass begins'])
  const opening = setInterval(() => gate.open(), 1)
  await Promise.all([first, change, ...checks])
  clearInterval(opening)
  t.same(
    order.slice(0, 5),
    ['pass begins', 'pass ends', `${KEY} goes into the kernel`, 'firewall/2 goes into the kernel', 'pass begins'],
    'before the passes that were asked for earlier',
  )
  t.equal(order.filter((step) => step === 'pass begins').length, 3)
  t.ok(plane.entries.has(KEY))
})

t.test('a frozen licence stops changes, not repairs', async (t) => {
  let now = new Date()
  const { plane, call, control, beat, meddle, drifts } = await bench(t, { now: () => now })
  t.equal((await call('POST', '/api/v1/rules', RULE)).status, 201)
  now = new Date(now.getTime() + 400 * 86_400_000)
  t.equal((await call('POST', '/api/v1/rules', RULE)).status, 403, 'control: it is frozen')
  meddle(KEY)
  await beat()
  t.ok(plane.entries.has(KEY))
  t.match(drifts(), [{ repaired: true, added: 1 }])
  plane.entries.delete(KEY)
  t.match(await control('POST', '/control/v1/drift', {}), { status: 200, body: { status: 'repaired', added: 1 } })
})

t.test('persist-04 what belongs to an area that is off, or to nobody, is left alone', async (t) => {
  const plane = fakePlane()
  const theirs = [element('firewall', 'x'), element('nobody', 'y')]
  for (const entry of theirs) plane.entries.set(entry.key, entry)
  const { agent, beat, drifts } = await bench(t, { plane, config: { disabled_areas: 'firewall' } })
  plane.meddled = true
  await beat()
  await agent.drift.check({ dryRun: false })
  t.same([...plane.entries.values()], theirs)
  t.same(drifts(), [])
})

t.test('a check on demand shows what differs, or repairs it', async (t) => {
  const { agent, plane, call, control, beat } = await bench(t)
  const check = (body: object) => control('POST', '/control/v1/drift', body)
  await call('POST', '/api/v1/rules', RULE)
  t.match(await check({}), { status: 200, body: { status: 'clean', differing: 0, found: [] } })
  plane.entries.delete(KEY)
  const found = [{ key: KEY, state: 'missing' }]
  t.match((await check({ dry_run: true })).body, { status: 'differs', differing: 1, added: 0, found })
  t.notOk(plane.entries.has(KEY), 'nothing was done')
  t.match((await check({})).body, { status: 'repaired', differing: 1, added: 1, found })
  t.ok(plane.entries.has(KEY))
  plane.entries.delete(KEY)
  await check({ dry_run: true })
  await beat()
  t.ok(plane.entries.has(KEY), 'what was shown is repaired by the next beat, though nobody has been there since')
  plane.entries.delete(KEY)
  plane.apply = () => Promise.reject(new KernelRefusal('busy'))
  t.match(await check({}), { status: 409, body: { error: /firewall: busy/ } })
  plane.observe = () => Promise.reject(new UncertainOutcome('the nft helper ended'))
  t.match(await check({}), { status: 409, body: { error: /the nft helper ended/ } })
  t.equal((await check({ dry: true })).status, 400)
  t.match(agent.troubles(), [/the nft helper ended/])
})

t.test('what a refused change brought to light is told as drift', async (t) => {
  const { plane, call, drifts, agent } = await bench(t)
  await call('POST', '/api/v1/rules', RULE)
  plane.entries.delete(KEY)
  plane.refuse = new KernelRefusal('No such file or directory')
  t.equal((await call('DELETE', '/api/v1/rules/1')).status, 200)
  await agent.pipeline.exclusively(async () => {})
  t.match(drifts(), [{ repaired: true, added: 1, found: [{ key: KEY, state: 'missing' }] }])
})

t.test('the end of the agent waits for a pass that runs', async (t) => {
  const plane = fakePlane()
  const { agent, time } = await bench(t, { plane })
  const stop = agent.drift.start()
  const steps: string[] = []
  const observe = plane.observe
  plane.observe = async () => {
    await turn()
    steps.push('observed')
    return observe()
  }
  plane.meddled = true
  time.ms += 1000
  const beating = agent.drift.beat()
  await stop()
  t.same(steps, ['observed'])
  await beating
})
