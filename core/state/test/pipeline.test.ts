/** Promise 1: whatever step of a mutation fails, nothing of it remains, in the store or in the kernel. */
import t, { type Test } from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal, UncertainOutcome } from '../../../dataplane/plane.ts'
import { type BuiltAgent, buildArea, TOKEN } from '../../../test/build.ts'
import { openStore, type Store } from '../store.ts'

const RULE = { action: 'drop', source_ip: '192.0.2.0/24' }

async function snapshot({ agent, plane, call }: BuiltAgent) {
  const { body } = await call('GET', '/api/v1/rules')
  return { rules: body.rules, entries: [...plane.entries.keys()].sort(), events: agent.outbox.bounds().latest }
}

/** One existing rule, then `attempt`, which must be refused and leave everything as it was. */
async function refused(t: Test, built: BuiltAgent, sabotage: () => void, status: number, repair = () => {}) {
  await built.call('POST', '/api/v1/rules', { action: 'accept', priority: 1 })
  const before = await snapshot(built)
  const attempts: [string, string, unknown][] = [
    ['POST', '/api/v1/rules', RULE],
    ['PUT', '/api/v1/rules/1', RULE],
    ['DELETE', '/api/v1/rules/1', undefined],
    ['PUT', '/api/v1/rules/default', { default_action: 'deny' }],
    ['POST', '/api/v1/rules/batch', { rules: [RULE, RULE] }],
  ]
  for (const [method, path, body] of attempts) {
    sabotage()
    const answer = await built.call(method, path, body)
    repair()
    t.equal(answer.status, status, `${method} ${path} is refused: ${answer.text}`)
    t.same(await snapshot(built), before, `${method} ${path} left nothing`)
  }
  t.equal((await built.call('POST', '/api/v1/rules', RULE)).status, 201, 'the next change goes through')
}

t.test('err-11 the kernel refuses: 409, no row, no entry, no event', async (t) => {
  const built = await buildArea(t, 'firewall')
  await refused(t, built, () => (built.plane.refuse = new KernelRefusal('No space left on device')), 409)
})

t.test('err-11 the data plane fails in an unknown way: 500 and the kernel is brought to the store', async (t) => {
  const built = await buildArea(t, 'firewall')
  await refused(t, built, () => (built.plane.refuse = new UncertainOutcome('helper ended')), 500)
})

t.test('err-11 an apply that half happened before it failed is repaired from the store', async (t) => {
  const plane = fakePlane()
  const built = await buildArea(t, 'firewall', { plane })
  const apply = plane.apply
  let once = false
  const sabotage = () => {
    once = true
    plane.apply = async (diff) => {
      if (!once) return apply(diff)
      once = false
      await apply(diff)
      throw new UncertainOutcome('answer lost')
    }
  }
  await refused(t, built, sabotage, 500)
})

for (const step of ['begin', 'commit'] as const) {
  t.test(`err-11 ${step} fails: 500, the kernel is put back`, async (t) => {
    const broken = { now: false }
    const openBroken = (stateDir: string): Store => {
      const store = openStore(stateDir)
      const original = store[step]
      store[step] = () => {
        if (!broken.now) return original()
        throw new Error('disk I/O error')
      }
      return store
    }
    const built = await buildArea(t, 'firewall', { openStore: openBroken })
    await refused(
      t,
      built,
      () => (broken.now = true),
      500,
      () => (broken.now = false),
    )
  })
}

t.test('err-11 the outbox fails: 500, nothing without its event', async (t) => {
  const built = await buildArea(t, 'firewall')
  const { store } = built.agent
  const sabotage = () =>
    store.write.run(`CREATE TRIGGER broken BEFORE INSERT ON core_events BEGIN SELECT RAISE(ABORT, 'injected'); END`)
  const repair = () => store.write.run('DROP TRIGGER broken')
  await refused(t, built, sabotage, 500, repair)
})

t.test('err-11 the rule itself fails half way: 500, no half of it stays', async (t) => {
  const built = await buildArea(t, 'firewall')
  const { store } = built.agent
  const sabotage = () =>
    store.write.run(
      `CREATE TRIGGER broken AFTER UPDATE ON firewall_settings BEGIN SELECT RAISE(ABORT, 'injected'); END`,
    )
  await built.call('PUT', '/api/v1/rules/default', { default_action: 'allow' })
  await refused(t, built, sabotage, 500, () => store.write.run('DROP TRIGGER broken'))
})

t.test('err-11 the undo fails too: the kernel is brought to the store', async (t) => {
  const plane = fakePlane()
  const broken = { now: false }
  const openBroken = (stateDir: string): Store => {
    const store = openStore(stateDir)
    const commit = store.commit
    store.commit = () => {
      if (broken.now) throw new Error('disk full')
      commit()
    }
    return store
  }
  const apply = plane.apply
  plane.apply = async (diff) => {
    const undo = await apply(diff)
    return broken.now ? () => Promise.reject(new Error('undo refused')) : undo
  }
  const built = await buildArea(t, 'firewall', { plane, openStore: openBroken })
  await refused(
    t,
    built,
    () => (broken.now = true),
    500,
    () => (broken.now = false),
  )
})

t.test('a reader sees nothing of an open transaction, and changes run one after the other', async (t) => {
  const built = await buildArea(t, 'firewall')
  const { agent, call, plane } = built
  const apply = plane.apply
  const seen: unknown[] = []
  plane.apply = async (diff) => {
    const answer = await agent.app.inject({ url: '/api/v1/rules', headers: { authorization: `Bearer ${TOKEN}` } })
    seen.push(answer.json().rules.length)
    return apply(diff)
  }
  const answers = await Promise.all(Array.from({ length: 20 }, () => call('POST', '/api/v1/rules', RULE)))
  t.ok(answers.every(({ status }) => status === 201))
  t.same(
    seen.slice(0, 20),
    Array.from({ length: 20 }, (_, i) => i),
  )
  const ids = answers.map(({ body }) => (body.rule as { id: number }).id)
  t.equal(new Set(ids).size, 20)
  const events = agent.outbox.after(0, 100)
  t.same(
    events.map(({ id }) => id),
    Array.from({ length: 20 }, (_, i) => i + 1),
    'events are numbered without a gap',
  )
})

t.test(
  'while the kernel cannot be brought to the store no change is built on it, and then it is made good first',
  async (t) => {
    const plane = fakePlane()
    const built = await buildArea(t, 'firewall', { plane })
    const { call } = built
    await call('POST', '/api/v1/rules', { action: 'accept' })
    const observe = plane.observe
    plane.observe = () => Promise.reject(new Error('no helper'))
    plane.refuse = new UncertainOutcome('helper ended')
    t.equal((await call('POST', '/api/v1/rules', RULE)).status, 500)
    t.equal((await call('GET', '/api/v1/status')).body.status, 'degraded')
    t.equal((await call('POST', '/api/v1/rules', RULE)).status, 500, 'nothing is built on unknown ground')
    plane.entries.clear()
    plane.observe = observe
    t.equal((await call('POST', '/api/v1/rules', RULE)).status, 201)
    t.equal((await call('GET', '/api/v1/status')).body.status, 'running')
    const kept = [...plane.entries.values()].filter(({ kind }) => kind === 'rule').length
    t.equal(kept, 2, 'what was lost is back, and the new rule is there')
  },
)
