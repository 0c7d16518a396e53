/**
 * Members around one etcd, and everything that can come between: each step is one thing that may happen now, picked at random. In the end
 * all that can still arrive arrives, and every store must be what etcd is.
 */
import { put } from '../../plugins/cluster/etcd/words.ts'
import { changeKey } from '../../plugins/cluster/keys.ts'
import { openModelEtcd } from './etcd.ts'
import { going } from './going.ts'
import * as member from './member.ts'
import { orphans } from './rows.ts'
import {
  carrying,
  doubting,
  following,
  hasCome,
  type Node,
  processOf,
  type Step,
  takingOver,
  type World,
} from './steps.ts'

const MEMBERS = 3
/** Those that have yet to come. */
const OTHERS = 1
/** Things that happen before all comes to rest. */
const STEPS = 160
const MOST_STEPS = 20_000

/** What went wrong; nothing: all stores are what etcd is. */
export function run(random: () => number, rules: member.Rules, counts: Map<string, number>): string[] {
  const etcd = openModelEtcd()
  const ids = Array.from({ length: MEMBERS }, (_, at) => `n${at + 1}`)
  etcd.carryOut({ compares: [], ops: ids.map((id) => put(changeKey(id), '{}')) })
  const nodes = ids.map((id): Node => {
    const store = { ...member.emptyStore(), revisions: new Map([[changeKey(id), 2]]), reached: 2 }
    return { id, store, etcd: 2, slow: false, away: false, leaving: false, ...processOf(store) }
  })
  for (let at = 0; at < OTHERS; at++) {
    const store = member.emptyStore()
    nodes.push({ id: `m${at + 1}`, store, etcd: 0, slow: false, away: true, leaving: false, ...processOf(store) })
  }
  const world = { etcd, nodes, flying: new Set<member.Flight>(), rules, random, counts, ending: false, changes: 0 }
  try {
    for (let step = 0; step < STEPS; step++) take(world)
    world.ending = true
    for (const node of nodes) node.slow = false
    for (let step = 0; !isAtRest(world); step++) {
      if (step > MOST_STEPS) return ['it does not come to rest']
      take(world)
    }
  } catch (error) {
    return [(error as Error).message]
  }
  return nodes.flatMap(({ id, store }) => [
    ...member.differences(id, store, etcd.state(etcd.revision)),
    ...orphans(store.rows).map((key) => `${id} has ${key} and not what it goes with`),
  ])
}

const isAtRest = ({ flying, nodes, etcd }: World): boolean =>
  flying.size === 0 &&
  nodes.every(
    ({ job, loading, anew, doubts, applied, away, leaving }) =>
      !away && !leaving && !job && !loading && !anew && doubts.length === 0 && applied === etcd.revision,
  )

function take(world: World): void {
  const steps = [...world.nodes.flatMap((node) => [...stepsOf(world, node)]), ...flights(world)]
  let left = world.random() * steps.reduce((sum, [weight]) => sum + weight, 0)
  const step = steps.find(([weight]) => {
    left -= weight
    return left < 0
  })
  step?.[1]()
}

function* flights({ flying, etcd, ending, random }: World): Generator<Step> {
  for (const flight of flying) {
    const land = () => {
      flying.delete(flight)
      flight.answer = etcd.carryOut(flight.transaction)
      if (flight.shutOut && flight.answer.succeeded) throw new Error('a change came into force that was shut out')
    }
    yield [2, land]
    yield [0.1, () => flying.delete(flight)]
  }
  const compact = () => {
    etcd.compacted = Math.max(etcd.compacted, etcd.revision - Math.floor(random() * 6))
  }
  if (!ending) yield [0.1, compact]
}

function* stepsOf(world: World, node: Node): Generator<Step> {
  const { etcd, random, ending, counts } = world
  const pace = node.slow ? 0.1 : 1
  const count = (what: string) => void counts.set(what, (counts.get(what) ?? 0) + 1)
  yield* going(world, node, count)
  if (node.away) return
  if (node.etcd < etcd.revision) {
    const hear = () => {
      node.etcd += 1 + Math.floor(random() * (etcd.revision - node.etcd))
    }
    yield [6 * pace, hear]
  }
  yield* following(world, node, pace, count)
  yield* takingOver(world, node, count)
  if (node.job) yield* carrying(world, node, node.job, count)
  yield* doubting(world, node, count)
  if (ending) return
  if (!node.job && !node.loading && hasCome(node)) yield [2, () => begin(world, node)]
  const turn = () => {
    node.slow = !node.slow
  }
  yield [0.15, turn]
}

function begin(world: World, node: Node): void {
  node.job = member.jobOf(world.rules, node.id, node.store, `${node.id}.${++world.changes}`, world.random)
  if (node.job) world.flying.add(node.job.flight)
}
