/** New tables and larger arenas: rules go there, and none is missing on the way. */
import t from 'tap'
import { ADVERSARIES } from '../../../../test/firewall/adversarial.ts'
import { dice } from '../../../../test/firewall/dice.ts'
import { packets } from '../../../../test/firewall/packets.ts'
import { linear, reference } from '../../../../test/firewall/reference.ts'
import { mixed } from '../../../../test/firewall/rulesets.ts'
import { requireRoot, type Scope } from '../../../../test/netns.ts'
import type { BpfMap } from '../../map.ts'
import type { FilterChange } from '../classifier.ts'
import { enforcement } from '../enforcement.ts'
import type { FilterRule } from '../entries.ts'
import { grow } from '../upkeep.ts'
import { hitCells, judge, marks, misplaced, needed, ruleWith, SEED, type Small, small, sweepAll } from './small.ts'

requireRoot(t)
t.comment(`SEED=${SEED}`)

/** Lists of rules; ALL=1 takes all that there are. */
const ALL = [{ name: 'mixed', make: mixed }, ...ADVERSARIES]
const KINDS = process.env.ALL ? ALL : ALL.filter(({ name }) => ['mixed', 'ranges of ports', 'devices'].includes(name))

/** The classifier as the agent drives it, but for the programs. */
function driven(t: Scope, it: Small) {
  const problems: unknown[] = []
  const work = enforcement({
    classifier: it.classifier,
    outerOf: () => outer,
    grace: () => new Promise(setImmediate),
    mend: async () => false,
    settled: () => {},
    quietMs: 1,
    onProblem: (error) => void problems.push(error),
    close: () => {},
  })
  t.teardown(() => work.close())
  return {
    problems,
    change: (changes: readonly FilterChange[]) => work.change(changes),
    isMoving: () => it.families.some(({ tables }) => tables.all().some(({ leaving }) => leaving)),
    /** Until all is done that changes have left behind. */
    async rest() {
      await work.close()
      await sweepAll(it)
    },
  }
}

/** Stands for a map of maps that nobody looks into. */
const outer = { swap: async () => {} } as unknown as BpfMap<number, number>

const turn = () => new Promise(setImmediate)

/** Every rule where it is looked for, by points in it. */
function wrong(it: Small, rules: readonly FilterRule[], seed: number, count = 200): number {
  const decide = reference(rules)
  return packets(rules, count, seed).filter((packet) => judge(it, packet) !== (decide(packet)?.id ?? 0)).length
}

t.test('a rule in parts moves as a whole, also when one of its tables stays', async (t) => {
  const it = small(t, [1 << 17, 1 << 16])
  const work = driven(t, it)
  const draw = dice(SEED)
  const ranges = Array.from({ length: 40 }, (_, n) => {
    const low = draw.between(1, 40_000)
    return ruleWith(n + 1, { destPorts: [low, low + draw.between(2000, 20_000)] })
  })
  for (const after of ranges) await work.change([{ after }])
  const one = Array.from({ length: 300 }, (_, n) => ruleWith(n + 100, { destPorts: [n + 1, n + 1] }))
  await work.change(one.map((after) => ({ after })))
  const all = [...ranges, ...one]
  t.ok(work.isMoving(), 'there is something to move')
  while (work.isMoving()) {
    if (wrong(it, all, SEED, 20) > 0) return t.fail('a packet meets another rule while rules move')
    await turn()
  }
  t.equal(wrong(it, all, SEED, 2000), 0)
  for (const before of ranges) await work.change([{ before }])
  t.equal(wrong(it, one, SEED), 0, 'what is taken away is away wherever it stood')
  t.same(packets(ranges, 300, SEED).filter((packet) => judge(it, packet) !== (linear(one)(packet)?.id ?? 0)).length, 0)
  return t.same(work.problems, [])
})

t.test('changes go on while rules move, and every packet meets the rules of then', async (t) => {
  for (const { name, make } of KINDS) {
    const it = small(t)
    const work = driven(t, it)
    const draw = dice(SEED)
    const pool = make(600, SEED)
    const held = new Map(pool.slice(0, 120).map((rule) => [rule.id, rule]))
    for (const after of held.values()) await work.change([{ after }])
    const rest = pool.slice(300)
    await work.change(rest.map((after) => ({ after })))
    for (const rule of rest) held.set(rule.id, rule)
    for (let step = 0; step < 400 && (step < 30 || work.isMoving()); step++) {
      const rule = draw.pick(pool)
      const before = held.get(rule.id)
      if (before && draw.maybe(0.6)) {
        held.delete(rule.id)
        await work.change([{ before }])
      } else {
        const after = { ...rule, accept: draw.maybe(0.5) }
        held.set(rule.id, after)
        await work.change([{ ...(before && { before }), after }])
      }
      if (step >= 30) await new Promise((resolve) => setTimeout(resolve, 5))
      if (wrong(it, [...held.values()], SEED + step, 15) > 0) return t.fail(`${name}: step ${step} of SEED=${SEED}`)
    }
    t.equal(wrong(it, [...held.values()], SEED, 500), 0, name)
    await work.rest()
    for (const family of it.families) {
      t.equal(family.arena.room.used, needed(family), `${name}: no cell of IPv${family.family} is lost`)
      t.equal(family.standing.size, new Set(hitCells(family).values()).size, 'every rule counts for itself')
      t.same(misplaced(family), [])
    }
    t.same(work.problems, [], `${name}: nothing went wrong`)
  }
  return undefined
})

t.test('an arena that grows keeps rules, windows and hits', async (t) => {
  const it = small(t, [2048, 2048])
  const rules = mixed(100, SEED)
  const window = { from: 3600, to: 7200, daily: true }
  const timed = ruleWith(5000, { destPorts: [1, 1] }, { window, rank: [7, 1, 5000] })
  await it.classifier.apply([...rules, timed].map((after) => ({ after })))
  const [four] = it.families
  let count = 0n
  for (const cell of hitCells(four).values()) four.arena.longs(cell).set([++count, count * 100n])
  const counted = (id: number) => [...four.arena.longs(four.standing.get(id)?.hits ?? 0).slice(0, 2)]
  const seen = new Map([...four.standing.keys()].map((id) => [id, counted(id)]))
  // Packets go on counting in the old place until they are sent to the new one.
  const swap = async () => {
    const cell = four.standing.get(5000)?.hits ?? 0
    Atomics.add(four.arena.longs(cell), 0, 7n)
  }
  const old = four.arena
  await grow(four, { swap } as unknown as BpfMap<number, number>)
  t.not(four.arena, old)
  t.equal(four.arena.cells, 8192)
  seen.set(5000, [(seen.get(5000)?.[0] ?? 0n) + 7n, seen.get(5000)?.[1] ?? 0n])
  for (const [id, hits] of seen) t.same(counted(id), hits, `hits of ${id}`)
  t.equal(wrong(it, rules, SEED, 500), 0)
  t.equal(four.arena.room.used, needed(four), 'what ended has stayed behind')
  t.equal(marks(four), 0)
  t.same(misplaced(four), [])
  const image = [...four.arena.runs()].flatMap(({ slot }) => [...four.arena.rules(slot)]).find((it) => it[6] === 5000)
  t.same([...four.arena.longs(image?.[5] ?? 0).slice(0, 3)], [3600n, 7200n, 1n])
  await sweepAll(it)
  t.equal(four.arena.room.used, needed(four))
})

t.test('one set of rules after the other, without a pause', async (t) => {
  const it = small(t, [1 << 16, 1 << 15])
  const work = driven(t, it)
  let held: FilterRule[] = []
  for (const [round, { make }] of ALL.entries()) {
    const next = make(400, SEED + round)
    await work.change([...held.map((before) => ({ before })), ...next.map((after) => ({ after }))])
    held = next
  }
  t.equal(wrong(it, held, SEED), 0)
  while (work.isMoving() && work.problems.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  t.same(work.problems, [])
  t.equal(wrong(it, held, SEED), 0)
})
