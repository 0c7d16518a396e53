/** From one node to three and back, everybody writing all the time: nothing is lost on the way, and in the end it is as it was. */
import t from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, succeeded } from '../cluster.ts'
import { requireRoot } from '../netns.ts'
import { SEED } from '../seed.ts'
import { alone, same } from './alone.ts'
import { openModel } from './model.ts'
import { difference, rowsAt } from './stores.ts'
import { etcdOf, openWorld } from './world.ts'
import { startWriters, type Writers } from './writers.ts'

const P = '/api/v1'
requireRoot(t)
const { nodes, traffics } = await openWorld(t, (t, options) => nodesOn(t, 3, options))
const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
const model = openModel()
const writers = new Map<ClusterNode, Writers>()
const write = (node: ClusterNode) => void writers.set(node, startWriters([node], model, SEED + writers.size))

/** Stops all for a moment, and holds what was acknowledged against what `members` have. */
async function nothingLost(t: { fail(what: string): unknown }, members: readonly ClusterNode[]): Promise<void> {
  const writing = [...writers.keys()]
  await Promise.all([...writers.values()].map((each) => each.stop()))
  writers.clear()
  await same(members)
  for (const problem of model.check(rowsAt(members[0] as ClusterNode))) t.fail(problem)
  for (const node of writing) write(node)
}

t.test('D100 one becomes three while it is written to', async (t) => {
  write(n1)
  await eventually('there is something to share', () => model.things.length > 5)
  t.equal(etcdOf(n1), undefined, 'no etcd runs before')
  // Under a default deny who comes must be admitted beforehand, or a rule must let it in.
  const admit = ({ id, address }: ClusterNode) => n1.agent.call('POST', `${P}/cluster/join`, { node_id: id, address })
  succeeded(await admit(n2))
  await joinBy(n1, n2)
  write(n2)
  succeeded(await admit(n3))
  await joinBy(n2, n3)
  write(n3)
  await complete(nodes)
  await nothingLost(t, nodes)
})

t.test('each is restarted in turn while all are written to', async (t) => {
  for (const node of nodes) {
    await node.agent.restart()
    await complete(nodes)
  }
  await nothingLost(t, nodes)
})

t.test('D101 one is removed, and has all there was', async (t) => {
  const third = writers.get(n3)
  await third?.stop()
  writers.delete(n3)
  await eventually('n3 has what the others have', async () => {
    await Promise.all([...writers.values()].map((each) => each.stop()))
    return difference(nodes) === undefined
  })
  const before = rowsAt(n3)
  succeeded(await n1.agent.call('DELETE', `${P}/cluster/members/n3`))
  for (const node of [n1, n2]) write(node)
  await alone(n3)
  for (const [name, rows] of before) t.ok(rowsAt(n3).get(name)?.length || rows.length === 0, name)
  await complete([n1, n2])
  await nothingLost(t, [n1, n2])
})

t.test('the last but one leaves, and both go on with what they have', async (t) => {
  await writers.get(n2)?.stop()
  writers.delete(n2)
  succeeded(await n2.agent.call('POST', `${P}/cluster/leave`))
  await alone(n1)
  await alone(n2)
  await nothingLost(t, [n1])
  for (const node of nodes) succeeded(await node.agent.call('POST', `${P}/tenant`, { name: `of ${node.id}` }))
  await n1.agent.restart()
  await alone(n1)
  await nothingLost(t, [n1])
})

t.test('and no packet was lost', async (t) => {
  await Promise.all([...writers.values()].map((each) => each.stop()))
  for (const [at, { count }] of traffics.entries()) {
    const { sent, lost } = await count()
    t.equal(lost, 0, `n${at + 1}: ${lost} of ${sent}`)
    t.comment(`n${at + 1}: ${sent} datagrams forwarded and answered, ${lost} lost`)
  }
  t.comment(`SEED=${SEED} ${JSON.stringify(model.counts)}`)
})
