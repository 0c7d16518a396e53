/** What the counts of changes, of the way to the kernel and of the passes say. */
import t from 'tap'
import { KernelRefusal, UncertainOutcome } from '../../../dataplane/plane.ts'
import { readExposition } from '../../../test/exposition.ts'
import { ask, openAgent } from '../../../test/rest/ask.ts'
import type { Agent } from '../../agent.ts'
import { system } from '../../state/events.ts'

const P = '/api/v1'
const scrape = async (agent: Agent) => readExposition(await agent.metrics.text())
const rule = { json: { action: 'accept', dest_port: 0 } }

/** Step → how often it was taken. */
async function steps(agent: Agent) {
  const series = (await scrape(agent)).series('stratum_pipeline_step_duration_seconds_count')
  return Object.fromEntries(series.map(({ labels: { step }, value }) => [step, value]))
}

async function results(agent: Agent, area = 'firewall') {
  const series = (await scrape(agent)).series('stratum_pipeline_mutations_total', { area })
  return Object.fromEntries(series.map(({ labels: { result }, value }) => [result, value]))
}

t.test('a change goes through every step, and one that a rule refuses through those before', async (t) => {
  const { agent } = await openAgent(t)
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 201)
  const whole = { wait: 1, ground: 1, rule: 1, difference: 1, kernel: 1, outbox: 1, commit: 1 }
  t.same(await steps(agent), whole)
  t.same(await results(agent), { ok: 1, refused: 0, failed: 0 })
  t.equal((await ask(agent, 'DELETE', `${P}/rules/99`)).status, 404)
  t.same(await steps(agent), { ...whole, wait: 2, ground: 2, rule: 2, undo: 1 })
  t.same(await results(agent), { ok: 1, refused: 1, failed: 0 })
  const atomic = { json: { rules: [rule.json, { action: 'burn' }], atomic: true } }
  t.equal((await ask(agent, 'POST', `${P}/rules/batch`, atomic)).status, 400)
  t.same(await results(agent), { ok: 1, refused: 2, failed: 0 }, 'an atomic batch that is refused is no failure')
})

t.test('a change that the kernel refuses is a refusal, and what it cost shows', async (t) => {
  const { agent, plane } = await openAgent(t)
  plane.refuse = new KernelRefusal('No such file or directory')
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 409)
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_plane_refusals_total'), 1)
  t.equal(metrics.value('stratum_plane_uncertain_total'), 0)
  t.same(await results(agent), { ok: 0, refused: 1, failed: 0 })
  t.match(await steps(agent), { kernel: 1, undo: 1 })
  t.equal(metrics.value('stratum_reconcile_passes_total', { cause: 'repair', result: 'clean' }), 1)
})

t.test('an outcome that is not known is a failure, and the kernel is compared', async (t) => {
  const { agent, plane } = await openAgent(t)
  plane.refuse = new UncertainOutcome('the helper ended')
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 500)
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_plane_uncertain_total'), 1)
  t.equal(metrics.value('stratum_plane_refusals_total'), 0)
  t.same(await results(agent), { ok: 0, refused: 0, failed: 1 })
})

t.test('passages are counted by kind and direction, those that take back included', async (t) => {
  const { agent, plane } = await openAgent(t)
  const passages = async (change: string) =>
    (await scrape(agent)).value('stratum_plane_passages_total', { kind: 'rule', change }) ?? 0
  const { body } = await ask(agent, 'POST', `${P}/rules`, rule)
  const { id } = body.rule as { id: number }
  t.same([await passages('added'), await passages('removed')], [1, 0])
  await ask(agent, 'DELETE', `${P}/rules/${id}`)
  t.same([await passages('added'), await passages('removed')], [1, 1])
  const { commit } = agent.store
  agent.store.commit = () => {
    throw new Error('disk full')
  }
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 500)
  agent.store.commit = commit
  t.same([await passages('added'), await passages('removed')], [2, 2])
  t.notOk([...plane.entries.values()].some(({ kind }) => kind === 'rule'))
})

t.test('events are counted by area, and the bounds of the outbox shown', async (t) => {
  const { agent } = await openAgent(t, { config: { max_events: '100' } })
  const empty = await scrape(agent)
  const first = empty.value('stratum_events_latest_id') ?? Number.NaN
  const json = { rules: Array.from({ length: 103 }, () => rule.json) }
  t.equal((await ask(agent, 'POST', `${P}/rules/batch`, { json })).status, 200)
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_events_written_total', { area: 'firewall' }), 103)
  t.equal(metrics.value('stratum_events_latest_id'), first + 103)
  t.equal(metrics.value('stratum_events_oldest_id'), first + 4, 'no more are kept')
})

t.test('what waits in the queue is shown', async (t) => {
  const { agent } = await openAgent(t)
  const depth = async () => (await scrape(agent)).value('stratum_pipeline_queue_depth')
  t.equal(await depth(), 0)
  let go = () => {}
  const held = agent.pipeline.exclusively(() => new Promise<void>((resolve) => (go = resolve)))
  const waiting = agent.pipeline.mutate('core', system('test'), () => ({ result: 1, touch: [], events: [] }))
  t.equal(await depth(), 2)
  go()
  await Promise.all([held, waiting])
  t.equal(await depth(), 0)
  t.same(await results(agent, 'core'), { ok: 1, refused: 0, failed: 0 })
  await t.rejects(agent.pipeline.exclusively(() => Promise.reject(new Error('no'))))
  t.equal(await depth(), 0, 'work that fails leaves the queue, too')
})

t.test('passes are counted by cause, what they repair by area, and a failed one is pending', async (t) => {
  const { agent, plane } = await openAgent(t)
  const passes = async (cause: string, result: string) =>
    (await scrape(agent)).value('stratum_reconcile_passes_total', { cause, result })
  t.equal(await passes('boot', 'repaired'), 1)
  const repaired = async () =>
    (await scrape(agent)).value('stratum_reconcile_repaired_total', { area: 'firewall', change: 'added' }) ?? 0
  const atBoot = await repaired()
  t.ok(atBoot > 0)
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 201)

  plane.entries.delete('firewall/1')
  plane.refuse = new KernelRefusal('stale')
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 201, 'made good, and tried once more')
  t.equal(await passes('repair', 'repaired'), 1)
  t.equal((await repaired()) - atBoot, 1)

  const { observe } = plane
  plane.observe = () => Promise.reject(new Error('no netlink'))
  plane.refuse = new UncertainOutcome('gone')
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 500)
  t.equal(await passes('repair', 'failed'), 1)
  t.equal((await scrape(agent)).value('stratum_reconcile_pending'), 1)
  plane.observe = observe
  t.equal((await ask(agent, 'POST', `${P}/rules`, rule)).status, 201)
  const metrics = await scrape(agent)
  t.equal(await passes('ground', 'clean'), 1)
  t.equal(metrics.value('stratum_reconcile_pending'), 0)
  const age = Date.now() / 1000 - (metrics.value('stratum_reconcile_last_pass_timestamp_seconds') ?? 0)
  t.ok(age >= 0 && age < 60, `${age} s ago`)
})

t.test('whoever makes passes in time tells of them in the same way', async (t) => {
  const { agent } = await openAgent(t)
  const areas = { firewall: { added: 2, changed: 1, removed: 0 } }
  agent.metrics.pass({ cause: 'drift', result: 'deferred', seconds: 0.02 })
  t.equal((await scrape(agent)).value('stratum_reconcile_pending'), 1)
  agent.metrics.pass({ cause: 'drift', result: 'repaired', seconds: 0.04, repaired: areas })
  const metrics = await scrape(agent)
  t.equal(metrics.value('stratum_reconcile_pending'), 0)
  t.equal(metrics.value('stratum_reconcile_passes_total', { cause: 'drift', result: 'repaired' }), 1)
  t.equal(metrics.value('stratum_reconcile_repaired_total', { area: 'firewall', change: 'changed' }), 1)
  t.ok((metrics.value('stratum_reconcile_duration_seconds_sum') ?? 0) >= 0.06)
})
