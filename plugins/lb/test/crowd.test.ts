/** Many backends that are checked: never many at once, and none forgotten. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { judge, longer, NO_STREAK, type Streak } from '../checks/judge.ts'
import type { Probe } from '../checks/probe.ts'
import { LB, lbArea } from './area.ts'

const CHECK = { type: 'tcp', interval_sec: 10, timeout_sec: 2, threshold: 2 }
const [SECOND, INTERVAL] = [1000, 10_000]
const MANY = 400

t.test('lb-20 looks at hundreds of backends are spread over the interval', async (t) => {
  const seen: string[] = []
  const sick = new Set<string>()
  const look: Probe = async ({ address }) => {
    seen.push(address)
    return sick.has(address) ? 'sick' : undefined
  }
  const { add, call, pass, served, timers, agent, plane, stateDir } = await lbArea(t, { probe: look })
  for (let n = 0; n < MANY; n++) {
    const id = `v${n % 4}`
    if (n < 4) await add({ id, frontend_port: 80 + n, health_check: CHECK })
    const body = { id: `b${n}`, ip: `10.1.${n >> 8}.${n & 255}` }
    if ((await call('POST', `${LB}/${id}/backends`, body)).status !== 200) throw new Error(`backend ${n}`)
  }
  await pass(SECOND)
  t.equal(seen.length, MANY, 'each was looked at')
  t.ok([0, 1, 2, 3].every((n) => served(`v${n}`).every((line) => line.endsWith(' up'))))
  await agent.close()

  seen.length = 0
  const next = await lbArea(t, { probe: look, plane, stateDir, timers })
  const slices: number[] = []
  for (let n = 0; n < 20; n++) {
    const before = seen.length
    await next.pass(INTERVAL / 20)
    slices.push(seen.length - before)
  }
  t.equal(seen.length, MANY, 'after a start each is looked at within an interval')
  t.equal(new Set(seen).size, MANY)
  t.ok(Math.max(...slices) <= (MANY / 20) * 1.5, `${slices}`)
  t.ok(Math.min(...slices) >= (MANY / 20) * 0.5, `${slices}`)

  // All that one switch led to: one change of the store for many, not one for each.
  for (let n = 0; n < MANY; n++) sick.add(`10.1.${n >> 8}.${n & 255}`)
  await next.pass(INTERVAL)
  t.ok([0, 1, 2, 3].every((n) => next.served(`v${n}`).every((line) => line.endsWith(' up'))))
  await next.pass(INTERVAL)
  t.ok([0, 1, 2, 3].every((n) => next.served(`v${n}`).every((line) => line.endsWith(' down'))))
})

t.test('lb-20 no more looks at a time than there are places, and all get their turn', async (t) => {
  const open = new Set<() => void>()
  let most = 0
  const { add, join, pass, timers, checker, served } = await lbArea(t, {
    atOnce: 5,
    probe: () =>
      new Promise((resolve) => {
        const done = () => {
          open.delete(done)
          resolve(undefined)
        }
        open.add(done)
        most = Math.max(most, open.size)
      }),
  })
  await add({ health_check: CHECK })
  for (let n = 1; n <= 23; n++) await join('web', n)
  timers.advance(SECOND)
  t.equal(open.size, 5)
  while (open.size > 0) {
    for (const done of open) done()
    await new Promise(setImmediate)
  }
  await checker().idle()
  t.equal(most, 5)
  t.equal(served('web').filter((line) => line.endsWith(' up')).length, 23)
  await pass(0)
})

t.test('lb-20 those that are due at the same moment begin a few at a turn of the event loop', async (t) => {
  const seen: string[] = []
  const { add, join, timers, checker, served } = await lbArea(t, {
    probe: async ({ address }) => void seen.push(address),
  })
  await add({ health_check: CHECK })
  for (let n = 1; n <= 60; n++) await join('web', n)
  timers.advance(SECOND)
  t.equal(seen.length, 16)
  await checker().idle()
  t.same([seen.length, served('web').filter((line) => line.endsWith(' up')).length], [60, 60])
})

t.test('lb-14 lb-20 D75 for any row of results, health is what counting from the last change says', (t) => {
  const states = fc.record({
    state: fc.constantFrom('up' as const, 'down' as const),
    settling: fc.constantFrom('' as const, 'new' as const, 'override' as const),
  })
  fc.assert(
    fc.property(
      states,
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.boolean(), { maxLength: 40 }),
      (first, threshold, results) => {
        if (first.settling === 'new') first.state = 'down'
        const now = { ...first }
        let streak: Streak = NO_STREAK
        let [healthy, plain] = [first.state === 'up', first.settling]
        for (const [at, ok] of results.entries()) {
          streak = longer(streak, ok)
          const verdict = judge(now, streak, threshold)
          if (verdict !== undefined) Object.assign(now, { state: verdict ? 'up' : 'down', settling: '' })
          // The model: the last `threshold` results all say otherwise, or one where one is enough.
          const against = results.slice(Math.max(0, at - threshold + 1), at + 1)
          const turned = against.length === threshold && against.every((one) => one !== healthy)
          if (plain === 'override') [healthy, plain] = [ok, '']
          else if (plain === 'new' ? ok : turned) [healthy, plain] = [!healthy, '']
          if ((now.state === 'up') !== healthy) throw new Error(`${JSON.stringify({ first, threshold, results, at })}`)
        }
      },
    ),
    { numRuns: 2000 },
  )
  t.end()
})
