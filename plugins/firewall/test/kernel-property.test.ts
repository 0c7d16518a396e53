/**
 * The same property against the real kernel where nft judges: read back with nft, it holds the model's rules in the model's
 * order. What the classifier holds is asked in classifier-property.test.ts.
 */
import './nft-lane.ts'
import t, { type Test } from 'tap'
import { startAgent } from '../../../test/agent.ts'
import { type Netns, netns } from '../../../test/netns.ts'
import { fc } from '../../../test/property.ts'
import { SEED } from '../../../test/seed.ts'
import { type Change, carryOut, change, type Model } from './changes.ts'
import { chains, table, walk } from './kernel.ts'
import { judged, laneEnv, requireLane } from './lane.ts'
import { inOrder, input, printed } from './model.ts'

requireLane(t)
const MUTATIONS = 150

/** The leaves of the list hold at most as many rules. */
const LEAF = 32

/** What the kernel holds, against the model. */
function holds(t: Test, ns: Netns, { rules, deny }: Model, when: string): void {
  const all = chains(table(ns))
  const order = inOrder(rules)
  const found = [...walk(all, 'firewall_rules')]
  const lines = found.map(({ text, comment }) => `${comment.split(' ')[0]}: ${text}`)
  const expected = order.map((rule) => `firewall/${rule.id}: ${printed(rule)}`)
  // One text each, because tap takes seconds to compare long lists.
  t.equal(lines.join('\n'), expected.join('\n'), `${when}: ${rules.length} rules, as nft prints them, in order`)
  t.equal([...walk(all, 'firewall_default')].at(-1)?.text, deny ? 'drop' : undefined, `${when}: the default action`)
}

/** The chains beside the list. New drops stand in them for a moment, until the connections that they forbid are ended. */
const beside = (ns: Netns) => [...chains(table(ns))].filter(([name]) => !/^firewall_(rules|default)/.test(name))

/** Waits until those chains are as they were without any rule: the cost of an established packet does not grow. */
async function settled(ns: Netns, expected: ReturnType<typeof beside>): Promise<ReturnType<typeof beside>> {
  const same = () => JSON.stringify(beside(ns)) === JSON.stringify(expected)
  for (let tries = 60; tries > 0 && !same(); tries--) await new Promise((resolve) => setTimeout(resolve, 50))
  return beside(ns)
}

judged('fw-24 fw-50 persist-03 any changes: the kernel holds the desired rules in the desired order', async (t) => {
  t.comment(`SEED=${SEED}`)
  const ns = netns(t)
  const agent = await startAgent(t, { ns, env: laneEnv })
  const callers = { call: agent.call, control: agent.call }
  const [skeleton, idle] = [table(ns), beside(ns)]
  const model: Model = { rules: [], deny: false }
  const changes = fc.sample(change(LEAF), { seed: SEED, numRuns: MUTATIONS })
  // Whatever the seed: enough for leaves to be split, and then to be joined.
  changes[0] = { kind: 'batch', inputs: fc.sample(input, { seed: SEED, numRuns: 3 * LEAF }), bad: true, atomic: false }
  let most = 0
  for (const [at, one] of changes.entries()) {
    await carryOut(model, one, callers)
    most = Math.max(most, model.rules.length)
    if (at % 25 === 24) holds(t, ns, model, `after ${at + 1} changes`)
  }
  t.ok(most > 2 * LEAF, `control: there were up to ${most} rules`)
  t.ok(chains(table(ns)).size > chains(skeleton).size, 'control: the list is made of several chains')

  t.same(await settled(ns, idle), idle, 'what established connections pass is soon as short as without any rule')
  const before = table(ns)
  await agent.restart()
  t.equal(table(ns), before, 'a restart finds all of it and changes nothing')
  holds(t, ns, model, 'after a restart')
  await agent.kill()
  ns.run('nft', 'delete', 'table', 'inet', 'stratum')
  await agent.restart()
  holds(t, ns, model, 'after a reboot')

  const shuffled = [...model.rules].sort((a, b) => ((a.id * 7919) % 101) - ((b.id * 7919) % 101))
  for (const { id } of shuffled) {
    const at = model.rules.findIndex((rule) => rule.id === id)
    const gone: Change = { kind: 'delete', at }
    await carryOut(model, gone, callers)
    if (model.rules.length === LEAF) holds(t, ns, model, 'with one leaf left')
  }
  await carryOut(model, { kind: 'default', deny: false }, callers)
  await settled(ns, idle)
  t.equal(table(ns), skeleton, 'after deleting everything only the skeleton is left')
})

judged('fw-50 D65 several thousand rules, and changes all over them', async (t) => {
  const ns = netns(t)
  const agent = await startAgent(t, { ns, env: laneEnv })
  const callers = { call: agent.call, control: agent.call }
  const model: Model = { rules: [], deny: false }
  const inputs = Array.from({ length: 3200 }, (_, at) => ({
    action: at % 2 === 0 ? 'accept' : 'drop',
    dest_port: at + 1,
    priority: ((at * 7919) % 3200) + 1,
  }))
  await carryOut(model, { kind: 'batch', inputs, bad: false, atomic: true }, callers)
  holds(t, ns, model, 'after one batch')
  for (let at = 0; at < 20; at++) {
    await carryOut(
      model,
      { kind: 'replace', at: at * 157, input: { action: 'drop', priority: at * 150 + 1 }, stay: false },
      callers,
    )
    await carryOut(model, { kind: 'create', input: { action: 'accept', priority: 3200 - at } }, callers)
    await carryOut(model, { kind: 'delete', at: at * 149 }, callers)
  }
  holds(t, ns, model, 'after changes all over')
})
