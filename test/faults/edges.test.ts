/** What operators do at the wrong moment: two nodes that come at once, members that come back, calls for one that restarts. */
import t from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../cluster.ts'
import { requireRoot } from '../netns.ts'
import { alone, enter, newCode, same } from './alone.ts'

const P = '/api/v1'

requireRoot(t)
const { nodes } = await nodesOn(t, 3)
const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('D99 a code that two nodes use at once admits one of them', async (t) => {
  const code = await newCode(n1)
  const answers = await Promise.all([n2, n3].map((node) => enter(node, code)))
  const statuses = answers.map(({ status }) => status)
  t.same(statuses.toSorted(), [200, 403])
  const [admitted, other] = statuses[0] === 200 ? [n2, n3] : [n3, n2]
  await complete([n1, admitted])
  await alone(other)
  succeeded(await admitted.agent.call('POST', `${P}/cluster/leave`))
  await alone(n1)
})

t.test('D100 two nodes that come at once are both taken in', async () => {
  const codes = [await newCode(n1), await newCode(n1)]
  const answers = await Promise.all([enter(n2, codes[0] ?? ''), enter(n3, codes[1] ?? '')])
  for (const answer of answers) succeeded(answer)
  await complete(nodes)
  await same(nodes)
})

t.test('D101 a member that was removed while it was down goes on by itself, and comes again', async (t) => {
  await n3.agent.kill('SIGKILL')
  succeeded(await n1.agent.call('DELETE', `${P}/cluster/members/n3`))
  const { tenant } = succeeded(await n1.agent.call('POST', `${P}/tenant`, { name: 'meanwhile' }))
  await n3.agent.restart()
  await alone(n3)
  t.notMatch(JSON.stringify((await n3.agent.call('GET', `${P}/tenant`)).body), /meanwhile/)
  const own = succeeded(await n3.agent.call('POST', `${P}/tenant`, { name: 'own' }))
  const refused = await enter(n3, await newCode(n2))
  t.match([refused.status, refused.body.error], [409, /rows of its own/])
  await alone(n3)
  await complete([n1, n2])
  succeeded(await n3.agent.call('DELETE', `${P}/tenant/${(own.tenant as { id: string }).id}`))
  await joinBy(n2, n3)
  await complete(nodes)
  await same(nodes)
  t.equal((await n3.agent.call('GET', `${P}/tenant/${(tenant as { id: string }).id}`)).status, 200)
})

t.test('a member that is cut off cannot leave, and can when it is back', async (t) => {
  n3.cut()
  await eventually('it knows', async () => (await standing(n3)).leader === '')
  const left = await n3.agent.call('POST', `${P}/cluster/leave`)
  t.match([left.status, left.body.error], [503, /^cluster service not available/])
  n3.heal()
  await complete(nodes)
  succeeded(await n3.agent.call('POST', `${P}/cluster/leave`))
  await alone(n3)
  await complete([n1, n2])
  await joinBy(n1, n3)
  await complete(nodes)
})

t.test('clustering cannot be switched off under a member', async (t) => {
  const { status } = await n2.agent.call('PUT', '/control/v1/config/cluster_enabled', { value: 'off' })
  t.equal(status, 409)
})

t.test('a tenant that is deleted at one member takes its networks at another along', async () => {
  const { tenant } = succeeded(await n1.agent.call('POST', `${P}/tenant`, { name: 'leaving' }))
  const { id } = tenant as { id: string }
  const network = { name: 'lan', cidr: '10.60.0.0/24', tenant_id: id }
  await eventually(
    'n2 has the tenant',
    async () => (await n2.agent.call('POST', `${P}/networks`, network)).status === 201,
  )
  const pool = { name: 'p', subnet: '10.61.0.0/24', tenant_id: id }
  await eventually('n3 has it', async () => (await n3.agent.call('POST', `${P}/ipam/pools`, pool)).status === 201)
  await eventually('it is deleted', async () => {
    return [200, 404].includes((await n1.agent.call('DELETE', `${P}/tenant/${id}`)).status)
  })
  await eventually('n2 has none of its networks', async () => {
    return JSON.stringify((await n2.agent.call('GET', `${P}/networks`)).body.networks) === '[]'
  })
  for (const node of nodes) {
    await eventually(`${node.id} has none of its pools`, async () => {
      return !JSON.stringify(succeeded(await node.agent.call('GET', `${P}/ipam/pools`))).includes(id)
    })
  }
})

t.test('D102 a call for a member that restarts is answered by it, or 503', async (t) => {
  const restarted = n2.agent.restart()
  const seen = new Map<number, number>()
  let done = false
  void restarted.then(() => {
    done = true
  })
  while (!done) {
    const { status } = await n1.agent.call('GET', `${P}/rules`, undefined, { 'x-node': 'n2' })
    seen.set(status, (seen.get(status) ?? 0) + 1)
    await pause(20)
  }
  t.comment(JSON.stringify([...seen]))
  for (const status of seen.keys()) t.ok([200, 503].includes(status), `${status}`)
  await complete(nodes)
  t.equal((await n1.agent.call('GET', `${P}/rules`, undefined, { 'x-node': 'n2' })).status, 200)
})
