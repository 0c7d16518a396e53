/** Members that know each other by IPv6, and a node that is not taken in at first. */
import t from 'tap'
import { type ClusterNode, complete, eventually, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { joinWith, newCode } from './given.ts'

requireRoot(t)
const P = '/api/v1/cluster'

t.test('the members know each other by IPv6 as well', async (t) => {
  const { nodes } = await nodesOn(t, 2, { family: 6 })
  const [n1, n2] = nodes as [ClusterNode, ClusterNode]

  const { tenant } = succeeded(await n2.agent.call('POST', '/api/v1/tenant', { name: 'own' }))
  const refused = await joinWith(n2, (await newCode(n1)).code)
  t.equal(refused.status, 409, 'who has what the cluster has not is not taken in')
  await eventually('nobody waits for it', async () => (await standing(n1)).peers.length === 0)
  t.match((await n2.agent.call('GET', '/api/v1/tenant')).body.tenants, [{ name: 'own' }], 'and has it still')
  succeeded(await n2.agent.call('DELETE', `/api/v1/tenant/${(tenant as { id: string }).id}`))

  const { code } = await newCode(n1)
  succeeded(await joinWith(n2, code))
  await complete(nodes)
  t.match(JSON.parse(Buffer.from(code, 'base64').toString()), { addresses: ['[fd08::1]:7073'] })
  const passed = await n1.agent.call('GET', '/api/v1/rules', undefined, { 'x-node': 'n2' })
  t.equal(passed.status, 200, passed.text)
  const drop = await n1.agent.call('POST', '/api/v1/rules', { action: 'drop', source_ip: 'fd08::/64' })
  t.match([drop.status, drop.body.error], [409, 'rule would block cluster member n2 (fd08::2)'])
  succeeded(await n2.agent.call('POST', `${P}/leave`))
  await eventually('n1 is by itself', async () => (await standing(n1)).peers.length === 0)
})
