/** Health checks by connections, against real servers. Each `pass` of an interval is one look at each backend. */
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { probe } from '../checks/probe.ts'
import { LB, type LbOptions, lbArea, nobody } from './area.ts'
import { sites } from './sites.ts'

const SECOND = 1000
const CHECK = { type: 'tcp', interval_sec: 5, timeout_sec: 2, threshold: 3 }
const INTERVAL = CHECK.interval_sec * SECOND

/** One VIP with one backend, which a server is behind. */
async function one(t: Test, options: LbOptions = {}, check: object = CHECK) {
  const place = sites(t)
  const site = await place.tcp(1)
  const area = await lbArea(t, { probe: place.probe, ...options })
  await area.add({ health_check: check })
  await area.join('web', 1, { port: site.port })
  const look = () => area.pass(INTERVAL)
  const say = (healthy: boolean) => area.call('POST', `${LB}/web/backends/b1/health`, { healthy })
  const changes = () => area.events().filter((event) => event.startsWith('backend.state_changed'))
  return { ...area, place, site, look, say, changes }
}

const UP = 'backend.state_changed b1 healthy'
const DOWN = 'backend.state_changed b1 unhealthy'

t.test('D75 lb-20 a new backend is unhealthy until its first success, which is enough', async (t) => {
  const { pass, served, vip, changes, place, site, look } = await one(t)
  t.same([served('web'), (await vip('web')).backends[0]?.healthy], [['b1 down'], false])
  await pass(SECOND)
  t.same([served('web'), (await vip('web')).backends[0]?.healthy], [['b1 up'], true])
  t.same(changes(), [UP])
  t.same(place.asked, [`10.0.0.1:${site.port}`], 'at its own address and port')
  await look()
  await look()
  t.same([site.asked(), changes()], [3, [UP]], 'saying it again is no change')
})

t.test(
  'lb-20 a closed port is unhealthy after threshold failures in a row, and healthy again after as many successes',
  async (t) => {
    const { pass, served, changes, site, look } = await one(t)
    await pass(SECOND)
    await site.close()
    for (const state of ['up', 'up', 'down', 'down']) {
      await look()
      t.same(served('web'), [`b1 ${state}`])
    }
    await site.open()
    for (const state of ['down', 'down', 'up', 'up']) {
      await look()
      t.same(served('web'), [`b1 ${state}`])
    }
    t.same(changes(), [UP, DOWN, UP])
  },
)

t.test('lb-20 what flaps within the threshold changes nothing, neither way', async (t) => {
  const { pass, served, changes, site, look } = await one(t)
  await pass(SECOND)
  const turn = async (open: boolean, times: number) => {
    await (open ? site.open() : site.close())
    for (let n = 0; n < times; n++) await look()
  }
  for (let round = 0; round < 3; round++) {
    await turn(false, 2)
    await turn(true, 1)
  }
  t.same([served('web'), changes()], [['b1 up'], [UP]])
  await turn(false, 3)
  for (let round = 0; round < 3; round++) {
    await turn(true, 2)
    await turn(false, 1)
  }
  t.same([served('web'), changes()], [['b1 down'], [UP, DOWN]])
})

t.test('lb-20 who never answers is unhealthy, and is left in peace after timeout_sec', async (t) => {
  const given: AbortSignal[] = []
  const { timers, checker, served, changes } = await one(t, {
    probe: (target, signal) => {
      given.push(signal)
      return nobody(target, signal)
    },
  })
  timers.advance(SECOND)
  for (let n = 1; n <= 4; n++) {
    t.match([given.length, given.at(-1)?.aborted], [n, false])
    timers.advance(CHECK.timeout_sec * SECOND)
    t.equal(given.at(-1)?.aborted, true)
    await checker().idle()
    t.same(served('web'), ['b1 down'])
    timers.advance(INTERVAL - CHECK.timeout_sec * SECOND)
  }
  t.same(changes(), [])
})

t.test('lb-13 without a check an override holds', async (t) => {
  const { pass, served, say, place } = await one(t, {}, { type: '' })
  t.same(served('web'), ['b1 up'], 'healthy from the start')
  t.equal((await say(false)).status, 200)
  for (let n = 0; n < 10; n++) await pass(INTERVAL)
  t.same([served('web'), place.asked], [['b1 down'], []])
})

t.test('lb-14 state-09 with a check the next result decides, whatever the threshold', async (t) => {
  const { pass, served, say, changes, site, look } = await one(t)
  await pass(SECOND)
  await say(false)
  t.same(served('web'), ['b1 down'], 'at once')
  await look()
  t.same(served('web'), ['b1 up'])
  await site.close()
  await look()
  await say(true)
  await look()
  t.same(served('web'), ['b1 down'], 'the second failure, of three')
  await site.open()
  await say(true)
  await look()
  await site.close()
  await look()
  await look()
  t.same(served('web'), ['b1 up'], 'confirmed: from then on the threshold counts, from the start')
  await look()
  t.same(served('web'), ['b1 down'])
  t.same(changes(), [UP, DOWN, UP, DOWN, UP, DOWN])
})

t.test('lb-14 an override that agrees with the backend leaves it to the threshold again', async (t) => {
  const { pass, served, say, site, look } = await one(t)
  await pass(SECOND)
  await site.close()
  await say(false)
  await look()
  await site.open()
  for (const state of ['down', 'down', 'up']) {
    await look()
    t.same(served('web'), [`b1 ${state}`])
  }
})

t.test('lb-14 what a look found that began before the override does not count', async (t) => {
  const looks: ((why: string | undefined) => void)[] = []
  const { timers, checker, served, say, pass } = await one(t, {
    probe: () => new Promise((resolve) => looks.push(resolve)),
  })
  timers.advance(SECOND)
  await say(true)
  looks.shift()?.('ECONNREFUSED')
  await checker().idle()
  t.same(served('web'), ['b1 up'])
  timers.advance(INTERVAL)
  looks.shift()?.('ECONNREFUSED')
  await pass(0)
  t.same(served('web'), ['b1 down'], 'control: the next one counts')
})

t.test('lb-14 a verdict that waits behind an override does not count either', async (t) => {
  const looks: ((why: string | undefined) => void)[] = []
  const { timers, checker, served, say, agent } = await one(
    t,
    { probe: () => new Promise((resolve) => looks.push(resolve)) },
    { ...CHECK, threshold: 1 },
  )
  timers.advance(SECOND)
  looks.shift()?.(undefined)
  await checker().idle()
  timers.advance(INTERVAL)
  const held: { release: () => void } = { release: () => {} }
  const holding = agent.pipeline.exclusively(
    () =>
      new Promise<void>((resolve) => {
        held.release = resolve
      }),
  )
  const depth = async (many: number) => {
    while (agent.pipeline.depth() < many) await new Promise(setImmediate)
  }
  const said = say(true)
  await depth(2)
  looks.shift()?.('ECONNREFUSED')
  await depth(3)
  held.release()
  await Promise.all([holding, said, checker().idle()])
  t.same(served('web'), ['b1 up'])
})

t.test('a VIP or backend that is gone is not asked any more, and one of the same id is another', async (t) => {
  const { call, add, join, pass, served, site, look } = await one(t)
  await pass(SECOND)
  await call('DELETE', `${LB}/web/backends/b1`)
  t.same(served('web'), ['b1 draining'])
  const before = site.asked()
  await look()
  t.equal(site.asked(), before)
  await join('web', 1, { port: site.port })
  t.same(served('web'), ['b1 down'], 'it must prove itself again')
  await pass(SECOND)
  t.same(served('web'), ['b1 up'])
  await call('DELETE', `${LB}/web`)
  const then = site.asked()
  await add({ health_check: { type: '' } })
  await join('web', 1, { port: site.port })
  for (let n = 0; n < 4; n++) await look()
  t.equal(site.asked(), then)
})

t.test('what the kernel refuses is tried again with the next look, and keeps no other from changing', async (t) => {
  const looks = new Map<string, (why: string | undefined) => void>()
  const area = await lbArea(t, {
    probe: ({ address }) => new Promise((resolve) => looks.set(address, resolve)),
  })
  const { add, join, agent, checker, timers, served, plane, logged } = area
  const vips = ['v1', 'v2', 'v3', 'v4']
  const answer = (...answers: (string | undefined)[]) => {
    for (const [at, why] of answers.entries()) looks.get(`10.0.0.${at + 1}`)?.(why)
  }
  for (const [at, id] of vips.entries()) {
    await add({ id, frontend_port: 80 + at, health_check: { ...CHECK, threshold: 1 } })
    await join(id, at + 1)
  }
  timers.advance(SECOND)
  answer(undefined, undefined, undefined, undefined)
  await checker().idle()
  const all = () => vips.flatMap(served)
  t.same(all(), ['b1 up', 'b2 up', 'b3 up', 'b4 up'])

  const { apply } = plane
  plane.apply = async (diff, mode) => {
    if (diff.some(({ after }) => after?.key === 'lb/vip/v3')) throw new KernelRefusal('made up')
    return apply(diff, mode)
  }
  timers.advance(INTERVAL)
  // While the first waits for the pipeline, the others come together.
  const held: { release: () => void } = { release: () => {} }
  void agent.pipeline.exclusively(
    () =>
      new Promise<void>((resolve) => {
        held.release = resolve
      }),
  )
  answer('sick', 'sick', 'sick', 'sick')
  for (let turns = 0; turns < 10; turns++) await new Promise(setImmediate)
  held.release()
  await checker().idle()
  t.same(all(), ['b1 down', 'b2 down', 'b3 up', 'b4 down'])
  t.ok(logged.some(({ msg }) => /could not be stored; the next one tries again/.test(String(msg))))
  plane.apply = apply
  timers.advance(INTERVAL)
  answer('sick', 'sick', 'sick', 'sick')
  await checker().idle()
  t.same(all(), ['b1 down', 'b2 down', 'b3 down', 'b4 down'])
})

t.test('lic-09 while the licence is frozen, checks go on and what they find reaches the kernel', async (t) => {
  const clock = { ms: Date.now() }
  const { pass, call, served, changes, site, look } = await one(t, { now: () => new Date(clock.ms) })
  await pass(SECOND)
  clock.ms += 60 * 86_400_000
  t.equal((await call('POST', `${LB}/web/backends/b1/health`, { healthy: false })).status, 403, 'control: it is frozen')
  await site.close()
  for (let n = 0; n < CHECK.threshold; n++) await look()
  t.same([served('web'), changes()], [['b1 down'], [UP, DOWN]])
})

t.test('lb-20 a look says what is wrong, and ends when it shall', async (t) => {
  const server = createServer()
  const site = await sites(t).serve(1, server)
  const { address } = server.address() as { address: string }
  const target = { type: 'tcp' as const, address, port: site.port, path: '/' }
  t.equal(await probe(target, new AbortController().signal), undefined)
  await site.close()
  t.equal(await probe(target, new AbortController().signal), 'ECONNREFUSED')
  t.equal(await probe(target, AbortSignal.abort()), 'no answer in time')
})
