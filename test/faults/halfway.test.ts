/** Agents that are killed half-way, founding, entering and leaving: MOMENTS, in ms, sets after which times (one by default). */
import t from 'tap'
import type { Answer } from '../build.ts'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../cluster.ts'
import { requireRoot } from '../netns.ts'
import { alone, enter, isAlone, newCode, same } from './alone.ts'

const P = '/api/v1'
const MOMENTS = (process.env.MOMENTS ?? '300').split(',').map(Number)

requireRoot(t)
const { nodes } = await nodesOn(t, 3)
const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]

/** Kills the agent of `node` so long after `work` has begun, whose answer nobody gets. */
async function killedAfter(node: ClusterNode, ms: number, work: Promise<Answer>): Promise<void> {
  work.catch(() => {})
  await new Promise((resolve) => setTimeout(resolve, ms))
  await node.agent.kill('SIGKILL')
  await node.agent.restart()
}

/** Each under a new name: one whose outcome nobody knew may have been made. */
async function takesChanges({ agent }: ClusterNode): Promise<void> {
  let tries = 0
  await eventually('it takes changes', async () => {
    return (
      (await agent.call('POST', `${P}/tenant`, { name: `change ${++tries} of ${performance.now()}` })).status === 201
    )
  })
}

t.test('D100 a node killed while it makes its cluster is in none, or in a whole one', async (t) => {
  succeeded(await n1.agent.call('POST', `${P}/tenant`, { name: 'first' }))
  for (const ms of MOMENTS) {
    await killedAfter(n1, ms, n1.agent.call('POST', '/control/v1/cluster/join-codes', {}))
    await takesChanges(n1)
    t.match((await n1.agent.call('GET', `${P}/tenant`)).text, /"first"/)
  }
})

t.test('D100 a node killed while it enters is a member in the end, or comes by another code', async () => {
  for (const ms of MOMENTS) {
    await killedAfter(n2, ms, enter(n2, await newCode(n1)))
    const entered = await eventually('it is by itself or a member', async () => {
      if (await isAlone(n2)) return 'alone'
      const { peers, leader } = await standing(n2)
      return peers.length === 1 && leader !== '' ? 'member' : undefined
    })
    if (entered === 'alone') await joinBy(n1, n2)
    await complete([n1, n2])
    await same([n1, n2])
    succeeded(await n2.agent.call('POST', `${P}/cluster/leave`))
    await alone(n2)
    await alone(n1)
  }
})

t.test('D101 a node killed while it leaves has left, or is a member still', async () => {
  for (const node of [n2, n3]) await joinBy(n1, node)
  await complete(nodes)
  for (const ms of MOMENTS) {
    await killedAfter(n3, ms, n3.agent.call('POST', `${P}/cluster/leave`))
    const after = await eventually('it is by itself or a member', async () => {
      if (await isAlone(n3)) return 'alone'
      const { peers, leader } = await standing(n3)
      return peers.length === 2 && leader !== '' ? 'member' : undefined
    })
    if (after === 'member') succeeded(await n3.agent.call('POST', `${P}/cluster/leave`))
    await alone(n3)
    await complete([n1, n2])
    await joinBy(n1, n3)
    await complete(nodes)
  }
  await same(nodes)
})

t.test('D100 the survivor of two goes on alone by recover', async (t) => {
  succeeded(await n3.agent.call('POST', `${P}/cluster/leave`))
  await complete([n1, n2])
  await n1.agent.kill('SIGKILL')
  await eventually('n2 has no majority', async () => (await standing(n2)).leader === '')
  t.equal((await n2.agent.call('POST', `${P}/tenant`, { name: 'no' })).status, 503)
  const left = await n2.agent.call('POST', `${P}/cluster/leave`)
  t.match([left.status, left.body.error], [503, /^cluster service not available/])
  await eventually('it is told what to do', async () => {
    return /cluster recover/.test((await n2.agent.call('POST', `${P}/cluster/leave`)).text)
  })
  succeeded(await n2.agent.call('POST', '/control/v1/cluster/recover'))
  await takesChanges(n2)
  t.match(await standing(n2), { leader: 'n2', is_leader: true, peers: [] })
})
