/**
 * The property of kernel-property.test.ts where the classifier judges: whatever was changed, its tables in the kernel decide
 * packets as the model does.
 */

import t, { type Test } from 'tap'
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { netns } from '../../../test/netns.ts'
import { fc } from '../../../test/property.ts'
import { SEED } from '../../../test/seed.ts'
import { type Change, carryOut, change, type Model } from './changes.ts'
import { forget, held, judged, lane, laneEnv, requireLane } from './lane.ts'
import { input } from './model.ts'
import { decider, ICMPV6, type Seen, seen, TCP, UDP } from './opinion.ts'

requireLane(t)
const MUTATIONS = 150
const PACKETS = 60

const word = ({ id, input: { action } }: { id: number; input: { action: string } }) => `rule ${id} ${action}`

/** What the kernel says of random packets, against the model. */
async function decides(t: Test, agent: RunningAgent, { rules, deny }: Model, when: string): Promise<void> {
  const packets = fc.sample(seen, { seed: SEED + rules.length, numRuns: PACKETS })
  const [found, wanted]: [string[], string[]] = [[], []]
  for (const packet of packets) {
    const from = new Date()
    const { body, status, text } = await agent.call('GET', `/control/v1/firewall/trace?${query(packet)}`)
    if (status !== 200) throw new Error(`${query(packet)}: ${status} ${text}`)
    const { id, action } = body as { id?: number; action: string }
    const opinions = [from, new Date()].map((at) => {
      const rule = decider(rules, visible(packet), at)
      return rule ? word(rule) : `default ${deny ? 'drop' : 'accept'}`
    })
    const said = id === undefined ? `default ${action}` : `rule ${id} ${action}`
    found.push(`${query(packet)}: ${said}`)
    // A window may have opened or ended meanwhile.
    wanted.push(`${query(packet)}: ${opinions.includes(said) ? said : opinions[0]}`)
  }
  t.equal(found.join('\n'), wanted.join('\n'), `${when}: ${rules.length} rules decide ${PACKETS} packets`)
  t.ok(new Set(found.map((line) => line.split(': ')[1])).size > 1 || rules.length === 0, 'control: not all alike')
}

/** Only TCP and UDP have ports, and a trace takes none of others. */
const ported = ({ protocol }: Seen) => protocol === TCP || protocol === UDP
const visible = (packet: Seen): Seen => (ported(packet) ? packet : { ...packet, sport: 0, dport: 0 })

function query(packet: Seen): string {
  const { src, dst, protocol, sport, dport, interface: iif, mac, family } = packet
  // ICMP of IPv4 in IPv6 is refused.
  const proto = family === 6 && protocol === 1 ? ICMPV6 : protocol
  const fields = { src, dst, proto, ...(ported(packet) && { sport, dport }), ...(iif && { iif }), ...(mac && { mac }) }
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&')
}

judged('fw-24 fw-50 persist-03 any changes: the classifier decides by the desired rules in order', async (t) => {
  t.comment(`SEED=${SEED}`)
  const ns = netns(t)
  const agent = await startAgent(t, { ns, env: laneEnv })
  const callers = { call: agent.call, control: agent.call }
  const model: Model = { rules: [], deny: false }
  const changes = fc.sample(change(32), { seed: SEED, numRuns: MUTATIONS })
  changes[0] = { kind: 'batch', inputs: fc.sample(input, { seed: SEED, numRuns: 96 }), bad: true, atomic: false }
  for (const [at, one] of changes.entries()) {
    await carryOut(model, one, callers)
    if (at % 25 === 24) await decides(t, agent, model, `after ${at + 1} changes`)
  }
  t.equal(await held(ns, agent), model.rules.length)
  await agent.restart()
  t.equal(await held(ns, agent), model.rules.length, 'a restart finds all of them')
  await decides(t, agent, model, 'after a restart')
  await agent.kill()
  forget(ns)
  await agent.restart()
  await decides(t, agent, model, 'after a reboot')
  while (model.rules.length > 0) {
    const gone: Change = { kind: 'delete', at: SEED }
    await carryOut(model, gone, callers)
    if (model.rules.length % 40 === 0) await decides(t, agent, model, 'while all are deleted')
  }
  t.equal(await held(ns, agent), 0, `${lane}: none is left`)
})

judged('fw-50 D65 ten thousand rules, and changes all over them', async (t) => {
  const ns = netns(t)
  const agent = await startAgent(t, { ns, env: laneEnv })
  const callers = { call: agent.call, control: agent.call }
  const model: Model = { rules: [], deny: false }
  for (let part = 0; part < 3; part++) {
    const inputs = fc.sample(input, { seed: SEED + part, numRuns: 3400 })
    await carryOut(model, { kind: 'batch', inputs, bad: false, atomic: true }, callers)
  }
  await decides(t, agent, model, 'after three batches')
  for (let at = 0; at < 20; at++) {
    const [first, second] = fc.sample(input, { seed: at, numRuns: 2 })
    if (!first || !second) throw new TypeError('two inputs were asked for')
    await carryOut(model, { kind: 'replace', at: at * 457, input: first, stay: false }, callers)
    await carryOut(model, { kind: 'create', input: second }, callers)
    await carryOut(model, { kind: 'delete', at: at * 449 }, callers)
  }
  await decides(t, agent, model, 'after changes all over')
})
