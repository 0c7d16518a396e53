/** Three agents that are a cluster: what they tell, what they share, and calls for each other. In the order of the file. */
import t from 'tap'
import type { Answer } from '../../../test/build.ts'
import { type ClusterNode, complete, eventually, standing, succeeded, threeAgents } from '../../../test/cluster.ts'
import { alone } from '../../../test/faults/alone.ts'
import { requireRoot } from '../../../test/netns.ts'
import { stateCounts } from './counted.ts'

requireRoot(t)
const P = '/api/v1'
const { nodes, ask, client } = await threeAgents(t)
const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
const bare = ({ status, text }: Answer) => [status, text]
const x = (node: ClusterNode) => ({ 'x-node': node.id })

t.test('cluster-11 cluster-01 cluster-02 exactly one leads, and all agree who', async (t) => {
  const leader = await complete(nodes)
  for (const node of nodes) {
    const { body: summary } = await node.agent.call('GET', `${P}/cluster`)
    const role = node === leader ? 'leader' : 'follower'
    const own = { enabled: true, node_id: node.id, state: role, leader: leader.id, members: 3, healthy: 3 }
    t.same(summary, own, node.id)
    const { body: status } = await node.agent.call('GET', `${P}/cluster/status`)
    t.match(status, { state: role, leader: leader.id, is_leader: node === leader })
    const others = nodes.filter((one) => one !== node).map(({ id, address }) => ({ id, address, status: 'online' }))
    t.match(status.peers, others)
  }
})

t.test('cluster-12 cluster-03 after a change by any member the counts agree on all', async (t) => {
  succeeded(await n2.agent.call('POST', `${P}/tenant`, { name: 'acme' }))
  succeeded(await n3.agent.call('POST', `${P}/ipam/pools`, { name: 'p', subnet: '10.1.0.0/24' }))
  succeeded(await n1.agent.call('POST', `${P}/float`, { ip: '10.8.0.77' }))
  await eventually('the pool has come', async () => {
    return (await n1.agent.call('POST', `${P}/ipam/allocate`, { pool_id: 1 })).status === 200
  })
  const expected = { tenants_count: 1, floating_ips_count: 1, ip_allocations_count: 1 }
  const all = await eventually('the counts agree', () => stateCounts(nodes, expected))
  for (const counts of all) t.same(counts, all[0])
})

t.test('ver-03 a floating IP stays with its node, and the others know whose it is', async (t) => {
  for (const node of nodes) {
    const { body } = await node.agent.call('GET', `${P}/float`)
    t.match(body.floating_ips, [{ ip: '10.8.0.77', primary: 'n1', state: node === n1 ? 'active' : 'standby' }], node.id)
  }
  const { body } = await n2.agent.call('GET', `${P}/float`)
  const [{ id = '' } = {}] = body.floating_ips as { id?: string }[]
  for (const path of ['move', 'failover', 'failback']) {
    t.equal((await n2.agent.call('POST', `${P}/float/${id}/${path}`)).status, 404)
  }
})

t.test('D102 a call for another member is carried out there, whoever is called', async (t) => {
  const created = await ask(n1, 'POST', `${P}/rules`, { action: 'drop', source_ip: '198.51.100.1' }, x(n2))
  t.equal(created.status, 201, created.text)
  t.match(created.headers, { 'x-event-id': /^[0-9]+$/, 'ratelimit-limit': /^[0-9]+$/ })
  const rules = async (node: ClusterNode) => (await node.agent.call('GET', `${P}/rules`)).body.rules as unknown[]
  t.same([(await rules(n1)).length, (await rules(n2)).length], [0, 1])
  const there = await ask(n2, 'GET', `${P}/rules`)
  t.same(bare(await ask(n3, 'GET', `${P}/rules`, undefined, x(n2))), bare(there))
  t.same(bare(await n3.agent.call('GET', `${P}/rules`, undefined, x(n2))), bare(there), 'from the control socket too')
  t.equal((await ask(n1, 'GET', `${P}/rules`, undefined, { 'x-node': 'n9' })).status, 404)
})

t.test(
  'auth-19 auth-20 a member applies its own list to who calls another, and its refusal comes back unchanged',
  async (t) => {
    const list = (value: string) => n2.agent.call('PUT', '/control/v1/config/api_allowed_ips', { value })
    succeeded(await list('10.8.0.1,10.8.0.3'))
    const refused = await ask(n1, 'GET', `${P}/rules`, undefined, x(n2))
    t.same([refused.status, refused.body], [403, { error: 'forbidden: source address not allowed' }])
    t.same(bare(refused), bare(await ask(n2, 'GET', `${P}/rules`)), 'as it answers that caller itself')
    t.equal((await ask(n1, 'GET', `${P}/rules`)).status, 200, 'the member called lets it in')
    succeeded(await list('10.8.0.254'))
    t.equal((await ask(n1, 'GET', `${P}/rules`, undefined, x(n2))).status, 200, 'the members need not be on it')
    const fromNode = await n1.agent.call('GET', `${P}/rules`, undefined, x(n2))
    t.equal(fromNode.status, 403, 'who is root on n1 calls from the address of n1')
    succeeded(await list(''))
  },
)

t.test('the key of a tenant opens its own tenant at every member', async (t) => {
  const { body } = await n2.agent.call('GET', `${P}/tenant`)
  const [{ id = '' } = {}] = body.tenants as { id?: string }[]
  const { secret } = succeeded(await n3.agent.call('POST', `${P}/tenant/${id}/keys`, { label: 'k' }))
  const headers = { authorization: `Bearer ${secret}` }
  await eventually(
    'the key has come',
    async () => (await ask(n1, 'GET', `${P}/tenant/${id}`, undefined, headers)).status === 200,
  )
  const own = await ask(n1, 'GET', `${P}/tenant/${id}`, undefined, { ...headers, ...x(n2) })
  t.equal(own.status, 200, own.text)
  t.equal((await ask(n1, 'GET', `${P}/rules`, undefined, { ...headers, ...x(n2) })).status, 403)
})

t.test('fw-46 fw-47 a drop that would cut off a member is refused', async (t) => {
  const drop = { action: 'drop', source_ip: '10.8.0.2' }
  const refused = { error: 'rule would block cluster member n2 (10.8.0.2)' }
  for (const source_ip of ['10.8.0.2', '10.8.0.0/24', '0.0.0.0/0']) {
    const { status, body } = await n1.agent.call('POST', `${P}/rules`, { ...drop, source_ip })
    t.equal(status, 409, source_ip)
    t.match(body.error, /^rule would block cluster member n[23] \(10\.8\.0\.[23]\)$/)
  }
  for (const dest_port of [7073, 7074]) {
    const { status, body } = await n1.agent.call('POST', `${P}/rules`, { ...drop, protocol: 'tcp', dest_port })
    t.same([status, body], [409, refused])
  }
  const { rule } = succeeded(await n1.agent.call('POST', `${P}/rules`, { ...drop, protocol: 'tcp', dest_port: 22 }))
  const { id } = rule as { id: number }
  const put = await n1.agent.call('PUT', `${P}/rules/${id}`, drop)
  t.same([put.status, put.body], [409, refused])
  t.same((await n1.agent.call('GET', `${P}/rules/${id}`)).body, rule, 'the old rule stays')
  succeeded(await n1.agent.call('DELETE', `${P}/rules/${id}`))
})

t.test('D71 a default deny does not keep the members out', async (t) => {
  succeeded(await n2.agent.call('PUT', `${P}/rules/default`, { default_action: 'deny' }))
  await n1.agent.restart()
  await complete(nodes)
  t.equal((await n1.agent.call('GET', `${P}/rules`, undefined, x(n2))).status, 200, 'its door is open to them')
  t.throws(() => client.run('bash', '-c', 'timeout 2 bash -c "</dev/tcp/10.8.0.2/7073"'), 'and to nobody else')
  succeeded(await n2.agent.call('PUT', `${P}/rules/default`, { default_action: 'allow' }))
})

t.test('cluster-10 D101 a member is removed by another, and is nobody to them from then on', async (t) => {
  const self = await n1.agent.call('DELETE', `${P}/cluster/members/n1`)
  t.match([self.status, self.body.error], [409, /leave/])
  const { status, body } = await ask(n1, 'DELETE', `${P}/cluster/members/n3`)
  t.same([status, body], [200, { status: 'removed', id: 'n3' }])
  t.equal((await ask(n1, 'DELETE', `${P}/cluster/members/n3`)).status, 404)
  await complete([n1, n2])
  await eventually('n3 is by itself', async () => (await standing(n3)).peers.length === 0)
  t.match((await n3.agent.call('GET', `${P}/tenant`)).body.tenants, [{ name: 'acme' }], 'with all that was shared')
  t.equal((await ask(n1, 'GET', `${P}/rules`, undefined, x(n3))).status, 404)
})

t.test('cluster-06 the last but one leaves, and both are by themselves with all there is', async (t) => {
  const { status, body } = await ask(n2, 'POST', `${P}/cluster/leave`)
  t.same([status, body], [200, { status: 'left' }])
  for (const node of [n1, n2]) {
    // While its etcd ends there is a moment in which nothing shared can be changed.
    await alone(node)
    t.match((await node.agent.call('GET', `${P}/tenant`)).body.tenants, [{ name: 'acme' }])
    succeeded(await node.agent.call('POST', `${P}/tenant`, { name: `of ${node.id}` }))
  }
})
