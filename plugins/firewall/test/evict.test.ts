/** When connections are looked through for what new drops forbid, over a plane in memory. */
import t, { type Test } from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { queries } from '../queries.ts'
import { firewall } from './area.ts'

const DROPS = 40

async function watched(t: Test) {
  const plane = fakePlane()
  const state = { looks: 0, fails: false }
  Object.assign(plane.connections, {
    async list() {
      state.looks++
      if (state.fails) throw new Error('no conntrack')
      return []
    },
  })
  const area = await firewall(t, { plane })
  const pending = () => queries(area.agent.store.read).pendingCount.get()?.rules ?? 0
  const settled = async () => {
    while (pending() > 0) await new Promise((done) => setTimeout(done, 5))
  }
  return { ...area, state, pending, settled }
}

t.test('a stream of new drops shares the passes, and all are dealt with', async (t) => {
  const { create, state, settled } = await watched(t)
  const since = performance.now()
  for (let n = 1; n <= DROPS; n++) await create({ action: 'drop', dest_port: n })
  await settled()
  t.ok(state.looks <= 2 + (performance.now() - since) / 100, `${state.looks} passes`)
})

t.test('D72 while connections cannot be ended, what is left is not gone through with every change', async (t) => {
  const { create, state, pending, settled } = await watched(t)
  state.fails = true
  const since = performance.now()
  for (let n = 1; n <= DROPS; n++) await create({ action: 'drop', dest_port: n })
  t.ok(state.looks <= 2 + (performance.now() - since) / 1000, `${state.looks} passes`)
  t.equal(pending(), DROPS)
  state.fails = false
  await create({ action: 'accept' })
  await settled()
  t.equal(pending(), 0, 'any change makes it try again')
})

t.test('more new drops than one pass takes', async (t) => {
  const { agent, call, state, settled } = await watched(t)
  const rules = Array.from({ length: 1200 }, (_, n) => ({ action: 'drop', dest_port: n + 1 }))
  t.match(await call('POST', '/api/v1/rules/batch', { rules, atomic: true }), { body: { created: 1200 } })
  await settled()
  t.ok(state.looks > 0)
  t.equal([...queries(agent.store.read).pendingRules.all({ after: 0, limit: 1 })].length, 0)
})
