/** The tables in the kernel, asked by `explain`: the rule that the reference names decides each packet. */
import '../../../../test/inside.ts'
import t from 'tap'
import { ADVERSARIES } from '../../../../test/firewall/adversarial.ts'
import { dice } from '../../../../test/firewall/dice.ts'
import { asked, described, inside, type Packet, packets } from '../../../../test/firewall/packets.ts'
import { linear, reference } from '../../../../test/firewall/reference.ts'
import { mixed } from '../../../../test/firewall/rulesets.ts'
import { requireRoot } from '../../../../test/netns.ts'
import { bpffs } from '../../test/support.ts'
import type { FilterRule, FilterWindow } from '../entries.ts'
import { openClassifier } from '../open.ts'
import { prefix, ruleWith, SEED } from './small.ts'

requireRoot(t)
t.comment(`SEED=${SEED}`)
const COUNT = Number(process.env.PACKETS ?? 1500)

const it = await openClassifier({ root: bpffs(t), onProblem: (error) => t.fail(String(error)) })
t.teardown(() => it.close())
await it.defaults.apply([{ after: { kind: 'filter_default', key: 'firewall/filter_default', accept: false } }])
t.afterEach(async () => {
  await it.rules.apply((await it.rules.observe()).map((before) => ({ before })))
})

async function wrong(rules: readonly FilterRule[], asks: readonly Packet[]): Promise<string[]> {
  const decide = reference(rules)
  const out: string[] = []
  for (const packet of asks) {
    const { id = 0, accept } = await it.filter.trace(asked(packet))
    const rule = decide(packet)
    if (id !== (rule?.id ?? 0) || accept !== (rule?.accept ?? false)) out.push(`${described(packet)}: ${id}`)
  }
  return out.slice(0, 3)
}

t.test('fw-02 packets of both families meet the first rule that matches', async (t) => {
  for (const { name, make } of [{ name: 'mixed', make: mixed }, ...ADVERSARIES]) {
    const rules = make(400, SEED)
    await it.rules.apply(rules.map((after) => ({ after })))
    t.same(await wrong(rules, packets(rules, COUNT / 5, SEED)), [], name)
    t.same((await it.rules.observe()).length, rules.length)
    await it.rules.apply(rules.map((before) => ({ before })))
  }
})

t.test('long runs and ranges in parts', async (t) => {
  const draw = dice(SEED)
  const dest = prefix('60.1.2.3')
  const same = Array.from({ length: 600 }, (_, n) =>
    ruleWith(n + 1, { dest, protocol: 'tcp', sourcePort: 1 + (n % 300) }, { rank: [1, draw.between(0, 999), n] }),
  )
  const ranges = Array.from({ length: 120 }, (_, n) => {
    const low = draw.between(1, 60_000)
    return ruleWith(
      n + 1000,
      { dest, destPorts: [low, low + draw.between(1, 5000)] },
      { rank: [2, draw.between(0, 9), n] },
    )
  })
  const all = [...same, ...ranges]
  for (const after of all) await it.rules.apply([{ after }])
  t.same(await wrong(all, packets(all, COUNT, SEED)), [])
  const left = all.filter(({ id }) => id % 3 !== 0)
  await it.rules.apply(all.filter(({ id }) => id % 3 === 0).map((before) => ({ before })))
  return t.same(await wrong(left, packets(all, COUNT, SEED + 1)), [])
})

t.test('what has no ports meets no rule with one; unknown devices and MACs meet none of theirs', async (t) => {
  const device = ruleWith(1, { interface: 'in0' }, { rank: [0, 0, 1] })
  const mac = ruleWith(2, { mac: '02:00:00:00:00:01' }, { rank: [0, 0, 2] })
  const ports = ruleWith(3, { destPorts: [1, 65_535] }, { rank: [0, 0, 3] })
  const icmp = ruleWith(4, { protocol: 'icmp' }, { rank: [0, 0, 4] })
  await it.rules.apply([device, mac, ports, icmp].map((after) => ({ after })))
  const packet = {
    source: '20.0.0.1',
    dest: '60.0.0.1',
    protocol: 6,
    sourcePort: 1,
    destPort: 2,
    interface: '',
    mac: '',
  }
  const six = { ...packet, source: '2600::1', dest: '2610::1' }
  const id = async (more: object) => (await it.filter.trace({ ...packet, ...more })).id
  t.equal(await id({ interface: 'in0' }), 1)
  t.equal(await id({ interface: 'in' }), 3)
  t.equal(await id({ interface: 'nobody' }), 3)
  t.equal(await id({ mac: '02:00:00:00:00:01' }), 2)
  t.equal(await id({}), 3, 'no device and no MAC')
  t.equal(await id({ protocol: 17 }), 3)
  for (const protocol of [0, 47, 50, 58, 132]) t.equal(await id({ protocol }), undefined, `protocol ${protocol}`)
  t.equal(await id({ protocol: 1 }), 4)
  t.equal(await id(six), 3)
  t.equal(await id({ ...six, protocol: 58 }), undefined)
  t.equal(await id({ ...six, protocol: 1 }), undefined, 'protocol icmp is that of IPv4')
  await it.rules.apply([{ before: ports }])
  t.equal(await id({}), undefined)
  await it.rules.apply([{ before: device }])
  t.equal(await id({ interface: 'in0' }), undefined)
})

t.test('fw-07 windows: both ends belong to them, daily ones pass midnight', async (t) => {
  await it.rules.observe()
  const packet = {
    source: '20.0.0.1',
    dest: '60.0.0.1',
    protocol: 6,
    sourcePort: 1,
    destPort: 2,
    interface: '',
    mac: '',
  }
  const now = () => Math.floor(Date.now() / 1000)
  /** Whether the window was open at this second: asked again when it was over before the answer. */
  const isOpen = async (of: (second: number) => FilterWindow): Promise<boolean> => {
    for (;;) {
      const second = now()
      const rule = ruleWith(1, {}, { window: of(second) })
      await it.rules.apply([{ after: rule }])
      const { id } = await it.filter.trace(packet)
      await it.rules.apply([{ before: rule }])
      if (now() === second) return id === 1
    }
  }
  const day = (second: number) => ((second % 86_400) + 86_400) % 86_400
  const once = (from: number, to: number) => (second: number) => ({
    from: second + from,
    to: second + to,
    daily: false,
  })
  const daily = (from: number, to: number) => (second: number) => ({
    from: day(second + from),
    to: day(second + to),
    daily: true,
  })
  for (const kind of [once, daily]) {
    t.ok(await isOpen(kind(0, 10)), `${kind.name}: its first second`)
    t.ok(await isOpen(kind(-10, 0)), 'its last')
    t.notOk(await isOpen(kind(1, 10)), 'before it')
    t.notOk(await isOpen(kind(-10, -1)), 'after it')
  }
  t.ok(await isOpen(daily(-3600, 82_000 - 3600)), 'over midnight or not, most of the day')
  t.ok(
    await isOpen((second) => ({ from: day(second), to: day(second - 2), daily: true })),
    'all but a second, just begun',
  )
  t.notOk(
    await isOpen((second) => ({ from: day(second + 1), to: day(second - 1), daily: true })),
    'all but this second',
  )
  const [standing] = await (async () => {
    await it.rules.apply([{ after: ruleWith(3, {}, { window: { from: 5, to: 86_399, daily: true } }) }])
    return it.rules.observe()
  })()
  t.same(standing?.kind === 'filter' && standing.window, { from: 5, to: 86_399, daily: true })
})

t.test('the arena grows while rules come one by one, and packets meet them', async (t) => {
  const rules = mixed(2500, SEED)
  const held: FilterRule[] = []
  const draw = dice(SEED)
  for (const [n, after] of rules.entries()) {
    await it.rules.apply([{ after }])
    held.push(after)
    if (n % 100 !== 99) continue
    const decide = linear(held)
    const asks = Array.from({ length: 10 }, () => inside(draw, draw.pick(held), held))
    for (const packet of asks) {
      const { id } = await it.filter.trace(asked(packet))
      if (id !== decide(packet)?.id) return t.fail(`${n + 1} rules: ${described(packet)}`)
    }
  }
  return t.same(await wrong(rules, packets(rules, COUNT, SEED)), [])
})
