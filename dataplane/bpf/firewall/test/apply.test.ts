/** Changes: all of one at one instant, or nothing of it. */
import t from 'tap'
import { dice } from '../../../../test/firewall/dice.ts'
import { packets } from '../../../../test/firewall/packets.ts'
import { linear, reference } from '../../../../test/firewall/reference.ts'
import { mixed } from '../../../../test/firewall/rulesets.ts'
import { requireRoot } from '../../../../test/netns.ts'
import type { FilterChange } from '../classifier.ts'
import { familiesOf } from '../image.ts'
import { NoRoom } from '../room.ts'
import { sweep } from '../upkeep.ts'
import { FULL, hitCells, judge, marks, misplaced, needed, prefix, ruleWith, SEED, small, sweepAll } from './small.ts'

requireRoot(t)
t.comment(`SEED=${SEED}`)

t.test('a change is not seen before its generation, and wholly in it', async (t) => {
  const it = small(t, [32_768, 8192])
  const [before, after] = [mixed(300, SEED), mixed(300, SEED + 1)]
  const asks = packets([...before, ...after], 500, SEED)
  await it.classifier.apply(before.map((rule) => ({ after: rule })))
  const first = it.settings.generation
  await it.classifier.apply([...before.map((rule) => ({ before: rule })), ...after.map((rule) => ({ after: rule }))])
  const [one, two] = [reference(before), reference(after)]
  const wrong = asks.filter((packet) => {
    const was = judge(it, packet, first) === (one(packet)?.id ?? 0)
    return !was || judge(it, packet) !== (two(packet)?.id ?? 0)
  })
  t.equal(wrong.length, 0, 'packets of both generations meet the rules of theirs')
  await sweepAll(it)
  t.same(asks.filter((packet) => judge(it, packet) !== (two(packet)?.id ?? 0)).length, 0, 'and after the sweep')
  for (const family of it.families) {
    t.equal(family.arena.room.used, needed(family), `IPv${family.family}: no cell is lost`)
    t.equal(marks(family), 0)
  }
})

t.test('a change for which room lacks leaves everything as it was', async (t) => {
  const it = small(t, [1024, 1024])
  const held = mixed(60, SEED)
  await it.classifier.apply(held.map((rule) => ({ after: rule })))
  await sweepAll(it)
  const decide = linear(held)
  const asks = packets(held, 300, SEED)
  const assertHeld = (what: string) =>
    t.equal(asks.filter((packet) => judge(it, packet) !== (decide(packet)?.id ?? 0)).length, 0, what)
  const cells = new Map(it.families.map((family) => [family, hitCells(family)]))
  const changed = held.map((before) => ({ before, after: { ...before, accept: !before.accept } }))
  const more = mixed(2000, SEED + 1).map((rule) => ({ after: { ...rule, id: rule.id + 1000 } }))
  for (const round of [1, 2, 3]) {
    await t.rejects(it.classifier.apply([...changed, ...more]), { name: 'NoRoom' })
    assertHeld(`round ${round}: the rules judge as before`)
    for (const family of it.families) t.same(hitCells(family), cells.get(family), 'and count where they did')
    await sweepAll(it)
    assertHeld(`round ${round}: also after the sweep`)
    for (const family of it.families) {
      t.equal(family.arena.room.used, needed(family), 'no cell is lost')
      t.same(misplaced(family), [])
    }
    t.equal(it.families.map(marks).join(), '0,0', 'no rule is marked')
  }
  await it.classifier.apply([{ after: ruleWith(9000, { destPorts: [9, 9] }, { rank: [0, 0, 0] }) }])
  assertHeld('a further change takes nothing with it')
})

t.test('what failed is not seen by packets that live on, whatever comes next and before the sweep', async (t) => {
  const it = small(t)
  const held = ruleWith(1, { dest: prefix('60.0.0.0/24') })
  await it.classifier.apply([{ after: held }])
  const asks = packets([held], 50, SEED)
  const lacks = { after: ruleWith(10, { interface: FULL }) }
  const { generation } = it.settings
  await t.rejects(it.classifier.apply([{ before: held, after: { ...held, accept: false } }, lacks]), NoRoom)
  const remains = it.classifier.take()
  await it.classifier.apply([{ before: held, after: { ...held, id: 2, rank: [1, 1, 2] } }])
  // The grace period of what failed was over before: packets of the generation then may still be judged.
  await sweep(it.classifier, remains)
  for (const packet of asks) {
    const was = linear([held])(packet)?.id ?? 0
    if (judge(it, packet, generation) !== was)
      return t.fail('a packet of the generation before is judged by half a change')
    if (judge(it, packet) !== was * 2) return t.fail('the change is not in force')
  }
  return t.pass('all of them are judged by what they live in')
})

t.test('a rule that is replaced goes on counting, another does not', async (t) => {
  const it = small(t)
  const [four] = it.families
  const rule = ruleWith(7, { destPorts: [80, 80] })
  await it.classifier.apply([{ after: rule }])
  const cell = four.standing.get(7)?.hits ?? 0
  four.arena.longs(cell)[0] = 5n
  const moved = { ...rule, match: { destPorts: [1, 90] as const }, rank: [3, 1, 7] as const }
  await it.classifier.apply([{ before: rule, after: moved }])
  t.equal(four.standing.get(7)?.hits, cell)
  await it.classifier.apply([{ before: moved, after: { ...moved, id: 8 } }])
  t.equal(four.standing.get(7), undefined)
  t.not(four.standing.get(8)?.hits, cell)
  t.equal(four.arena.longs(four.standing.get(8)?.hits ?? 0)[0], 0n)
})

t.test('what rules ask for is told before the first and until a grace period after the last', async (t) => {
  const it = small(t)
  const [FRESH, ASKED] = [2, 3]
  const told = () => [it.words[FRESH], it.words[ASKED]]
  const mac = ruleWith(1, { mac: '02:00:00:00:00:01' })
  const device = ruleWith(2, { interface: 'eth0', source: prefix('10.0.0.0/8') })
  const fresh = ruleWith(3, { destPorts: [1, 1] }, { accept: false, fresh: true })
  await it.classifier.apply([{ after: mac }, { after: device }, { after: fresh }])
  t.same(told(), [2, 3], 'both families count')
  await it.classifier.apply([{ before: mac }, { before: device }, { before: fresh }])
  t.same(told(), [2, 3], 'packets of the generation before are still told')
  await sweepAll(it)
  t.same(told(), [0, 0])
})

t.test('the number of a device is used again after the sweep only', async (t) => {
  const it = small(t)
  const rule = ruleWith(1, { interface: 'eth0' })
  await it.classifier.apply([{ after: rule }])
  const number = it.devices.held.get('eth0')
  await it.classifier.apply([{ before: rule }])
  await it.classifier.apply([{ after: ruleWith(2, { interface: 'eth1' }) }])
  t.not(it.devices.held.get('eth1'), number)
  await sweepAll(it)
  t.equal(it.devices.held.has('eth0'), false)
  await it.classifier.apply([{ after: ruleWith(3, { interface: 'eth2' }) }])
  t.equal(it.devices.held.get('eth2'), number)
})

t.test('random changes, some of which find no room: always the rules that stand', async (t) => {
  const draw = dice(SEED)
  const it = small(t, [1024, 512])
  const pool = mixed(400, SEED)
  let held = new Map(pool.slice(0, 50).map((rule) => [rule.id, rule]))
  await it.classifier.apply([...held.values()].map((after) => ({ after })))
  let refused = 0
  for (let step = 0; step < Number(process.env.STEPS ?? 300); step++) {
    const next = new Map(held)
    const count = draw.maybe(0.1) ? 350 : draw.between(1, 6)
    const changes = Array.from({ length: count }, () => draw.pick(pool)).flatMap((rule): FilterChange[] => {
      const before = held.get(rule.id)
      if (next.get(rule.id) !== before) return []
      if (before && draw.maybe(0.5)) {
        next.delete(rule.id)
        return [{ before }]
      }
      const after = { ...rule, accept: draw.maybe(0.5) }
      next.set(rule.id, after)
      return [{ ...(before && { before }), after }]
    })
    try {
      await it.classifier.apply(changes)
      held = next
    } catch (error) {
      if (!(error instanceof NoRoom)) throw error
      refused++
    }
    if (draw.maybe(0.6)) await sweepAll(it)
    const decide = linear([...held.values()])
    const wrong = packets(pool, 20, SEED + step).filter((packet) => judge(it, packet) !== (decide(packet)?.id ?? 0))
    if (wrong.length > 0) return t.fail(`step ${step} of SEED=${SEED}`, { packet: wrong[0] })
  }
  await sweepAll(it)
  for (const family of it.families) {
    t.equal(family.arena.room.used, needed(family), 'no cell is lost')
    t.same(misplaced(family), [])
  }
  const images = [...held.values()].flatMap(({ match }) => familiesOf(match)).length
  t.equal(
    it.families.reduce((sum, { standing }) => sum + standing.size, 0),
    images,
  )
  t.ok(refused > 0, `${refused} changes found no room`)
  return undefined
})
