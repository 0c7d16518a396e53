/** What changes leave behind: it is done away with wholly, whatever comes in between. */
import t, { type Test } from 'tap'
import { packets } from '../../../../test/firewall/packets.ts'
import { linear } from '../../../../test/firewall/reference.ts'
import { mixed } from '../../../../test/firewall/rulesets.ts'
import { requireRoot } from '../../../../test/netns.ts'
import type { BpfMap } from '../../map.ts'
import { noRemains } from '../classifier.ts'
import { enforcement } from '../enforcement.ts'
import type { FilterRule } from '../entries.ts'
import { NoRoom } from '../room.ts'
import { sweep } from '../upkeep.ts'
import { arena, judge, marks, misplaced, needed, ruleWith, SEED, type Small, small, sweepAll } from './small.ts'

requireRoot(t)

const outer = { swap: async () => {} } as unknown as BpfMap<number, number>

t.test('what a sweep leaves does not keep a later change from being swept', async (t) => {
  const it = small(t)
  const rules = mixed(40, SEED)
  await it.classifier.apply(rules.map((after) => ({ after })))
  await sweepAll(it)
  await it.classifier.apply(rules.slice(0, 20).map((before) => ({ before })))
  const first = it.classifier.take()
  // While the grace period of the first is waited for.
  await it.classifier.apply(rules.slice(20).map((before) => ({ before })))
  await sweep(it.classifier, first)
  await sweepAll(it)
  for (const family of it.families) {
    t.equal(marks(family), 0, 'nothing that ended stands there')
    t.equal(family.arena.room.used, needed(family))
  }
})

t.test('more may be left than a call has arguments', async (t) => {
  const it = small(t)
  const [four] = it.families
  const slots = Array.from({ length: 200_000 }, () => 8)
  it.classifier.leave(noRemains(four, 1))
  it.classifier.leave({ ...noRemains(four, 1), slots })
  t.equal(it.classifier.take()[0]?.slots.length, slots.length)
})

t.test('a change that is refused is swept, too', async (t) => {
  const it = small(t)
  const work = enforcement({
    classifier: it.classifier,
    outerOf: () => outer,
    grace: () => new Promise(setImmediate),
    mend: async () => false,
    settled: () => {},
    onProblem: (error) => t.fail(String(error)),
    close: () => {},
  })
  const [four] = it.families
  await work.change([{ after: ruleWith(1, { destPorts: [1, 1] }) }])
  const many = Array.from({ length: 200 }, (_, n) => ({ after: ruleWith(n + 2, { destPorts: [n + 2, n + 2] }) }))
  await t.rejects(work.change([...many, { after: ruleWith(900, { interface: 'full0' }) }]), { name: 'NoRoom' })
  while (it.classifier.isBehind || four.arena.room.used !== needed(four))
    await new Promise((resolve) => setTimeout(resolve, 5))
  t.equal(four.standing.size, 1)
  t.same(misplaced(four), [])
  await work.close()
})

/** One whose rules stand in tables that are to go, and the agent that empties them. */
async function leaving(t: Test, grace: (it: Small) => Promise<unknown>) {
  const it = small(t, [1 << 14, 1 << 12])
  const [four] = it.families
  const work = enforcement({
    classifier: it.classifier,
    outerOf: () => outer,
    grace: async () => void (await grace(it)),
    mend: async () => false,
    settled: () => {},
    quietMs: 0,
    onProblem: (error) => t.fail(String(error)),
    close: () => {},
  })
  t.teardown(() => work.close())
  const rules = mixed(100, SEED)
  await work.change(rules.map((after) => ({ after })))
  return {
    it,
    four,
    rules,
    work,
    async move() {
      for (const table of four.tables.all()) table.leaving = true
      await work.change([{ after: ruleWith(5000, { destPorts: [1, 1] }, { rank: [7, 0, 5000] }) }])
      while (four.tables.all().some((table) => table.leaving)) await new Promise((resolve) => setTimeout(resolve, 1))
    },
  }
}

function wrong(it: Small, rules: readonly FilterRule[]): number {
  const decide = linear(rules)
  return packets(rules, 1000, SEED).filter((packet) => judge(it, packet) % 5000 !== (decide(packet)?.id ?? 0)).length
}

t.test('when room comes from sweeping, rules that move are all taken along', async (t) => {
  const { it, four, rules, move } = await leaving(t, () => new Promise(setImmediate))
  const place = four.place.bind(four)
  let calls = 0
  four.place = (image, places, laid) => {
    if (++calls === 20) throw new NoRoom('no room is left for rules', 4)
    place(image, places, laid)
  }
  await move()
  t.ok(calls > 20)
  t.same(misplaced(four), [])
  t.equal(wrong(it, rules), 0)
})

t.test('tables that a change wanted again and another did not keep what was filed in them', async (t) => {
  const more = mixed(200, SEED + 1).map((rule) => ({ ...rule, id: rule.id + 1000, rank: [0, 0, rule.id] as const }))
  let change: (() => Promise<void>) | undefined
  let copied = 0
  const { it, four, rules, work, move } = await leaving(t, async () => {
    await new Promise(setImmediate)
    // Its turn comes when all are copied and none is taken away.
    const due = copied > 20 ? change : undefined
    if (due) change = undefined
    await due?.()
  })
  const place = four.place.bind(four)
  four.place = (image, places, laid) => {
    copied++
    place(image, places, laid)
  }
  const { classifier } = it
  const apply = classifier.apply.bind(classifier)
  change = async () => {
    classifier.apply = async (changes) => {
      classifier.apply = apply
      const gone = four.tables.all().filter((table) => table.leaving)
      const stay = four.tables.all().filter((table) => !table.leaving)
      for (const table of gone) four.tables.take(table.mask)
      for (const table of stay) table.leaving = true
      await apply(changes)
      for (const table of stay) four.tables.take(table.mask)
      for (const table of gone) table.leaving = true
    }
    await work.change(more.map((after) => ({ after })))
  }
  await move()
  t.equal(change, undefined)
  t.same(misplaced(four), [])
  t.equal(wrong(it, [...rules, ...more]), 0)
})

t.test('an arena has no use once closed, and does no harm', (t) => {
  const gone = arena(t, 4, 128)
  gone.close()
  t.throws(() => gone.insert(7, [new Uint32Array(16)]))
  t.same([...gone.runs()], [])
  t.end()
})
