/** Removals while something else goes wrong, by real agents. MOMENTS, in ms, sets after which times an agent is killed (few by default). */
import t from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { onward } from '../../../test/onward.ts'
import { deafen } from './away.ts'
import { newCode } from './given.ts'
import { ask, type Kept, keptBy } from './kept.ts'
import { remove, settled } from './trusted.ts'

const P = '/api/v1'
const MOMENTS = (process.env.MOMENTS ?? '40,300').split(',').map(Number)

requireRoot(t)
const step = onward(t)
const { nodes } = await nodesOn(t, 4)
const [n1, n2, n3, n4] = nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode]
for (const node of [n2, n3, n4]) await joinBy(n1, node)
await complete(nodes)

step('who was removed cannot tell a member that has not heard of it that it was removed, too', async (t) => {
  const kept = keptBy(n3, n2)
  const hear = deafen(n4)
  await eventually('n4 has no majority', async () => (await standing(n4)).leader === '')
  succeeded(await n1.agent.call('POST', `${P}/tenant`, { name: 'seen by all' }))
  succeeded(await remove(n1, n3))
  t.equal((await standing(n4)).peers.length, 3, 'n4 does not know of it')
  const farewell = { host: n4.address, port: 7073, path: '/farewell', method: 'POST' }
  t.equal(await ask(n3.ns, (await kept).own as Kept, farewell), '409')
  t.equal((await standing(n4)).peers.length, 3, 'it is a member still')
  hear()
  await settled([n1, n2, n4])
})

step('the node that was removed goes on with all it had, and may come again by another code', async (t) => {
  await eventually('n3 knows', async () => (await standing(n3)).peers.length === 0)
  t.match((await n3.agent.call('GET', `${P}/tenant`)).text, /"seen by all"/)
  succeeded(await n3.agent.call('POST', `${P}/tenant`, { name: 'its own' }))
  const { tenants } = (await n3.agent.call('GET', `${P}/tenant`)).body as { tenants: { id: number; name: string }[] }
  const { id } = tenants.find(({ name }) => name === 'its own') ?? {}
  t.notMatch((await n1.agent.call('GET', `${P}/tenant`)).text, /"its own"/)
  succeeded(await n3.agent.call('DELETE', `${P}/tenant/${id}`))
  await joinBy(n2, n3)
  await settled(nodes)
})

step('codes that were good before a removal are good no more', async (t) => {
  const { id } = await newCode(n3)
  succeeded(await remove(n1, n3))
  const { body } = await n2.agent.call('GET', `${P}/cluster/join-codes`)
  const states = new Map((body.join_codes as { id: string; state: string }[]).map((code) => [code.id, code.state]))
  t.equal(states.get(id), 'revoked')
  await eventually('n3 knows', async () => (await standing(n3)).peers.length === 0)
  await joinBy(n1, n3)
  await settled(nodes)
})

step('an agent that is killed while it removes a member has removed it, or does when asked again', async (t) => {
  for (const ms of MOMENTS) {
    const asked = remove(n1, n4)
    asked.catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, ms))
    await n1.agent.kill('SIGKILL')
    await n1.agent.restart()
    await eventually('it is removed', async () => [200, 404].includes((await remove(n1, n4)).status))
    await settled([n1, n2, n3])
    await eventually('n4 knows', async () => (await standing(n4)).peers.length === 0, 120_000)
    t.pass(`killed after ${ms} ms`)
    await joinBy(n2, n4)
    await settled(nodes)
  }
})
