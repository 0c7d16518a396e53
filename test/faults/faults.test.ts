/**
 * Three agents that are a cluster, disturbed while everybody writes at all of them. Nothing that was acknowledged is lost or given
 * twice, all hold the same soon after, a minority reads and changes what is its own, and no packet is lost anywhere.
 * DISTURBANCES sets how many (few by default), EQUAL_MS how soon after each all must hold the same (`npm run test:cluster` does more, and
 * asks for 5 s), KIND names the only kind there is to be, SEED makes a run repeatable.
 */
import '../inside.ts'
import t, { type Test } from 'tap'
import { chance } from '../chance.ts'
import { type ClusterNode, complete, eventually, standing } from '../cluster.ts'
import { requireRoot } from '../netns.ts'
import { SEED } from '../seed.ts'
import { begin, KINDS, type Kind } from './disturbances.ts'
import { differenceFromEtcd } from './etcd.ts'
import { minority } from './minority.ts'
import { openModel } from './model.ts'
import { difference, rowsAt } from './stores.ts'
import { openWorld } from './world.ts'
import { one, onePeer, startWriters } from './writers.ts'

const DISTURBANCES = Number(process.env.DISTURBANCES ?? 4)
/** The first of each turn are what can go wrong most. */
const turn = process.env.KIND ? KINDS.filter((kind) => kind === process.env.KIND) : KINDS
const kinds: Kind[] = Array.from({ length: DISTURBANCES }, (_, n) => turn[n % turn.length] as Kind)
const BEFORE_MS = 400
const LASTING_MS = DISTURBANCES > KINDS.length ? 4000 : 2500
const EQUAL_MS = Number(process.env.EQUAL_MS ?? 60_000)
/** For a look at what differs when it is over. */
const LONGEST_MS = 60_000

requireRoot(t)
const random = chance(SEED)
const world = await openWorld(t)
const { nodes, traffics } = world
const model = openModel()
const took: number[] = []

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Resolves to how long it took until all hold the same. */
async function equalAgain(): Promise<number> {
  const since = performance.now()
  await none('all hold the same', () => difference(nodes))
  return performance.now() - since
}

/** What all hold is what etcd has, and they know of which revision it is. */
const asEtcd = () => none('all hold what etcd has', () => differenceFromEtcd(nodes))

async function none(what: string, look: () => string | undefined): Promise<void> {
  let found: string | undefined
  const isNone = () => {
    found = look()
    return found === undefined
  }
  await eventually(what, isNone, LONGEST_MS).catch((error: unknown) => {
    throw new Error(`${error}: ${found}`)
  })
}

function problemsIn(t: Test): void {
  const [first] = nodes as [ClusterNode, ...ClusterNode[]]
  for (const problem of model.check(rowsAt(first))) t.fail(problem)
}

for (const [at, kind] of kinds.entries()) {
  t.test(`${at + 1}: ${kind}`, async (t) => {
    const writers = startWriters(nodes, model, SEED + at, kind === 'etcd stands still' ? onePeer : one)
    await pause(BEFORE_MS)
    const began = performance.now()
    const running = await begin(world, kind, random)
    if (kind.endsWith('cut off')) await minority(t, running.node, model, random)
    await pause(Math.max(0, began + LASTING_MS - performance.now()))
    await running.end()
    const since = performance.now()
    await writers.stop()
    const equal = await equalAgain()
    const healed = performance.now() - since
    took.push(healed)
    t.ok(healed <= EQUAL_MS, `equal ${Math.round(healed)} ms after`)
    await complete(nodes)
    // What came late has come by then.
    await equalAgain()
    await asEtcd()
    problemsIn(t)
    const rows = rowsAt(nodes[0] as ClusterNode)
    const answers = writers.samples.filter(({ from }) => from > began)
    const tally = [0, 200, 400, 500].map(
      (from) =>
        answers.filter(({ status }) => (from === 0 ? status === 0 : Math.floor(status / 100) * 100 === from)).length,
    )
    t.comment(
      `${running.node.id} ${running.detail}; answers while it lasted: none ${tally[0]}, 2xx ${tally[1]}, 4xx ${tally[2]}, 5xx ${tally[3]}; equal ${Math.round(healed)} ms after (${Math.round(equal)} after the last answer); rows ${[...rows.values()].map((list) => list.length).join('/')}`,
    )
  })
}

t.test('every member is there, takes changes, and has lost no packet', async (t) => {
  await complete(nodes)
  for (const node of nodes) t.match(await standing(node), { peers: [{ status: 'online' }, { status: 'online' }] })
  for (const [at, { count }] of traffics.entries()) {
    const { sent, lost } = await count()
    t.equal(lost, 0, `n${at + 1}: ${lost} of ${sent}`)
    t.ok(sent > 100)
    t.comment(`n${at + 1}: ${sent} datagrams forwarded and answered, ${lost} lost`)
  }
  const sorted = took.toSorted((a, b) => a - b)
  t.comment(
    `SEED=${SEED}, ${kinds.length} disturbances; ${JSON.stringify(model.counts)}; equal again: median ${Math.round(sorted[sorted.length >> 1] ?? 0)} ms, worst ${Math.round(sorted.at(-1) ?? 0)} ms`,
  )
  for (const kind of ['acknowledged', 'refused'] as const) t.ok(model.counts[kind] > 0, `some are ${kind}`)
})
