/** `POST /rules/batch`: its answer for every rule, one kernel change for all, all or nothing on request (D65). */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { firewall } from './area.ts'

const PATH = '/api/v1/rules/batch'
/** An accept, because a drop lets the area change something of its own soon after: it ends connections. */
const GOOD = { action: 'accept', dest_port: 80 }

t.test('fw-42 D65 one bad rule does not stop the others, and each is told its outcome', async (t) => {
  const { call, events, planned, rules } = await firewall(t)
  const sent = [
    GOOD,
    { action: 'reject' },
    { action: 'accept', source_ip: 'FD00::1/8' },
    { action: 'drop', colour: 'red' },
    { action: 'drop', mac: 'x' },
    'drop',
    null,
    { action: 'drop', priority: 3, comment: 'last' },
  ]
  const { status, body } = await call('POST', PATH, { rules: sent })
  t.equal(status, 200)
  const plain = { chain: 'prerouting', priority: 0, stateful: true, level: 'global' }
  const made = [
    { id: 1, ...plain, action: 'accept', dest_port: 80 },
    { id: 2, ...plain, action: 'accept', source_ip: 'fd00::/8' },
    { id: 3, ...plain, action: 'drop', priority: 3, comment: 'last' },
  ]
  const { results, ...counts } = body as { results: { index: number; error?: string }[] }
  t.same(counts, { status: 'partial', created: 3, failed: 5 })
  t.same(
    results.map(({ error, ...rest }) => rest),
    [
      { index: 0, status: 'created', rule: made[0] },
      { index: 1, status: 'failed', code: 400 },
      { index: 2, status: 'created', rule: made[1] },
      { index: 3, status: 'failed', code: 400 },
      { index: 4, status: 'failed', code: 400 },
      { index: 5, status: 'failed', code: 400 },
      { index: 6, status: 'failed', code: 400 },
      { index: 7, status: 'created', rule: made[2] },
    ],
  )
  t.match(results[1]?.error, /action/)
  t.match(results[3]?.error, /colour/, 'fw-06 the unknown key is named')
  t.match(results[4]?.error, /mac/)
  t.ok(results[5]?.error && results[6]?.error, 'what is no object is told so')
  t.same(await rules(), made)
  t.equal(planned().length, 3)
  t.same(events(), ['rule.created', 'rule.created', 'rule.created'], 'D112 one event for each rule')
})

t.test('D65 completed and failed', async (t) => {
  const { call, events, plane, rules } = await firewall(t)
  const done = await call('POST', PATH, { rules: [GOOD, GOOD], atomic: false })
  t.match(done.body, { status: 'completed', created: 2, failed: 0 })
  t.type(done.headers['x-event-id'], 'string')
  events()
  const applied = plane.applied
  const failed = await call('POST', PATH, { rules: [{}, { action: 1 }] })
  t.equal(failed.status, 200)
  t.match(failed.body, { status: 'failed', created: 0, failed: 2, results: [{ index: 0 }, { index: 1 }] })
  t.equal((await rules()).length, 2)
  t.same(events(), [])
  t.equal(plane.applied, applied, 'nothing reached the kernel')
})

t.test('D65 atomic is all or nothing', async (t) => {
  const { call, events, planned, rules } = await firewall(t)
  const refused = await call('POST', PATH, { atomic: true, rules: [GOOD, { action: 'reject' }, GOOD] })
  t.equal(refused.status, 400)
  t.type(refused.body.error, 'string')
  t.match(refused.body, { status: 'failed', created: 0, failed: 3 })
  const results = refused.body.results as { index: number; status: string; rule?: object; error: string }[]
  t.same(
    results.map(({ index, status, rule }) => [index, status, rule]),
    [0, 1, 2].map((index) => [index, 'failed', undefined]),
  )
  t.match(results[1]?.error, /action/)
  t.same([await rules(), planned(), events()], [[], [], []], 'nothing of it is there')
  const done = await call('POST', PATH, { atomic: true, rules: [GOOD, GOOD, GOOD] })
  t.equal(done.status, 200)
  t.match(done.body, { status: 'completed', created: 3, results: [{ rule: { id: 1 } }, { rule: { id: 2 } }, {}] })
  t.equal(planned().length, 3)
})

t.test('D65 atomic and the limit on the number of rules', async (t) => {
  const { call, rules } = await firewall(t, { config: { max_rules: '2' } })
  const refused = await call('POST', PATH, { atomic: true, rules: [GOOD, GOOD, GOOD] })
  t.equal(refused.status, 400)
  t.match(refused.body.results, [{ status: 'failed' }, { status: 'failed' }, { code: 409, error: /limit reached/ }])
  t.same(await rules(), [])
  t.equal((await call('POST', PATH, { atomic: true, rules: [GOOD, GOOD] })).status, 200, 'what fits goes in')
})

t.test('D65 D69 when the kernel refuses, nothing of the batch is there', async (t) => {
  const { call, events, plane, planned, rules } = await firewall(t)
  for (const atomic of [true, false]) {
    plane.refuse = new KernelRefusal('No buffer space available')
    t.equal((await call('POST', PATH, { atomic, rules: [GOOD, GOOD] })).status, 409)
    t.same([await rules(), planned(), events()], [[], [], []])
  }
})

t.test('D65 D10 D11 what is no batch is 400, in the words of an error', async (t) => {
  const { call, rules } = await firewall(t)
  const bad: [unknown, RegExp][] = [
    [undefined, /^rules is required$/],
    [{}, /^rules is required$/],
    [{ rules: [] }, /rules/],
    [{ rules: 'x' }, /rules/],
    [{ rules: null }, /rules/],
    [{ rules: { 0: GOOD } }, /rules/],
    [{ rules: [GOOD], more: 1 }, /more/],
    [{ rules: [GOOD], atomic: 'yes' }, /atomic/],
    [{ rules: [GOOD], atomic: null }, /atomic/],
    [{ rules: Array.from({ length: 5001 }, () => GOOD) }, /rules/],
  ]
  for (const [body, says] of bad) {
    const answer = await call('POST', PATH, body)
    const what = JSON.stringify(body)?.slice(0, 60) ?? 'no body'
    t.equal(answer.status, 400, what)
    t.match(answer.body, { error: says }, what)
  }
  t.same(await rules(), [])
})

t.test('D65 5000 rules at once keep their order', async (t) => {
  const { call, planned } = await firewall(t)
  const many = Array.from({ length: 5000 }, (_, at) => ({ action: 'drop', dest_port: at + 1 }))
  const { status, body } = await call('POST', PATH, { rules: many })
  t.equal(status, 200)
  t.match(body, { status: 'completed', created: 5000 })
  t.same(
    planned().map(({ text }) => Number(/dport (\d+)/.exec(text)?.[1])),
    many.map(({ dest_port }) => dest_port),
  )
})
