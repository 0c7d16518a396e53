/** Who leads when members die, are cut off and come back, and what is told of it. In the order of the file. */
import t from 'tap'
import { type ClusterNode, complete, eventually, standing, succeeded, threeAgents } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { eventsOf } from './told.ts'

requireRoot(t)
const P = '/api/v1'
const { nodes } = await threeAgents(t)
const roles = async (node: ClusterNode) =>
  (await eventsOf(node, 'cluster_member.state_changed')).map(({ data }) => data)

/** At each admission every member's etcd starts anew to trust the newcomer: who leads may change then. */
t.test(
  'state-17 who led itself and enters a cluster follows; each step from there to what it is now is told',
  async (t) => {
    await complete(nodes)
    const [founder] = nodes
    for (const node of nodes) {
      const told = await eventually('all is told', async () => {
        const all = await roles(node)
        return ((all.at(-1)?.to ?? 'leader') === 'leader') === (await standing(node)).is_leader ? all : undefined
      })
      if (node !== founder) t.same(told[0], { id: node.id, from: 'leader', to: 'follower' })
      let state: unknown = 'leader'
      for (const { id, from, to } of told) {
        t.same([id, from], [node.id, state])
        t.not(to, from)
        state = to
      }
    }
  },
)

t.test('state-17 an election makes a follower the leader, and a higher term the leader a follower', async (t) => {
  const old = await complete(nodes)
  const rest = nodes.filter((node) => node !== old)
  const before = new Map<ClusterNode, number>()
  for (const node of nodes) before.set(node, (await roles(node)).length)
  const since = async (node: ClusterNode) => (await roles(node)).slice(before.get(node))
  old.cut()
  const next = await eventually('another leads', async () => {
    for (const node of rest) if ((await standing(node)).is_leader) return node
    return undefined
  })
  await eventually('it is told', async () => (await since(next)).length > 0)
  t.same(await since(next), [{ id: next.id, from: 'follower', to: 'leader' }])

  await eventually('the old one leads nobody', async () => !(await standing(old)).is_leader)
  t.match(await standing(old), { state: 'follower', leader: '', is_leader: false })
  await eventually('it is told', async () => (await since(old)).length > 0)
  t.same(await since(old), [{ id: old.id, from: 'leader', to: 'follower' }])

  const read = await old.agent.call('GET', `${P}/tenant`)
  t.equal(read.status, 200, 'a minority reads')
  const asked = performance.now()
  const written = await old.agent.call('POST', `${P}/tenant`, { name: 'lost' })
  t.equal(written.status, 503, 'and does not write')
  t.match(written.body.error, /^cluster service not available/)
  t.comment(`refused after ${Math.round(performance.now() - asked)} ms`)
  const own = await old.agent.call('POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.1' })
  t.equal(own.status, 201, "what is the node's own can be changed")
  const passed = await old.agent.call('GET', `${P}/rules`, undefined, { 'x-node': next.id })
  t.match([passed.status, passed.body.error], [503, /^cluster service not available: member n[123] does not answer/])
  const { cluster, has_majority } = await metricsOf(old)
  t.same([cluster, has_majority], [{ online: 1, offline: 2 }, 0])
  succeeded(await next.agent.call('POST', `${P}/tenant`, { name: 'kept' }))

  old.heal()
  t.equal(await complete(nodes), next, 'who leads goes on leading')
  await eventually('what was missed has come', async () => {
    return JSON.stringify((await old.agent.call('GET', `${P}/tenant`)).body).includes('kept')
  })
  t.equal((await old.agent.call('POST', `${P}/tenant`, { name: 'again' })).status, 201)
})

t.test('state-17 a killed leader comes back as a follower', async (t) => {
  const old = await complete(nodes)
  await old.agent.kill('SIGKILL')
  const rest = nodes.filter((node) => node !== old)
  const next = await eventually('another leads', async () => {
    for (const node of rest) if ((await standing(node)).is_leader) return node
    return undefined
  })
  succeeded(await next.agent.call('POST', `${P}/tenant`, { name: 'meanwhile' }))
  await eventually('it is missed', async () => (await standing(next)).peers.some((peer) => peer.status === 'offline'))
  await old.agent.restart()
  t.equal(await complete(nodes), next)
  await eventually('that it came back is told too', async () => {
    const [last] = (await eventsOf(next, 'cluster_member.updated')).slice(-1)
    return last?.data.id === old.id && last.data.status === 'online'
  })
})

async function metricsOf({ agent }: ClusterNode) {
  const { text } = await agent.call('GET', `${P}/metrics`)
  const value = (line: string) => Number(new RegExp(`^stratum_cluster_${line} (\\d+)$`, 'm').exec(text)?.[1])
  const cluster = { online: value('members\\{status="online"\\}'), offline: value('members\\{status="offline"\\}') }
  return { cluster, has_majority: value('has_majority') }
}
