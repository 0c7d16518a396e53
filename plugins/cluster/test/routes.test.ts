/** A node that is in no cluster, and what it says of that. */
import { join } from 'node:path'
import t from 'tap'
import { listenControl } from '../../../core/transport/listener.ts'
import { overSocket } from '../../../test/agent.ts'
import { buildAgent, buildArea, scratch } from '../../../test/build.ts'
import { servedDocuments } from '../../../test/documents.ts'
import { clusterOf } from '../cluster.ts'

const P = '/api/v1/cluster'
const OFF = { error: 'cluster service not available' }
const only = ['node', 'firewall', 'cluster']

t.test('cluster-01 cluster-02 cluster-03 a node in no cluster leads itself', async (t) => {
  const { call } = await buildAgent(t)
  const summary = await call('GET', P)
  const { node_id: id } = summary.body
  t.same(summary.body, { enabled: false, node_id: id, state: 'leader', leader: id, members: 1, healthy: 1 })
  t.same((await call('GET', `${P}/status`)).body, {
    node_id: id,
    state: 'leader',
    leader: id,
    is_leader: true,
    peers: [],
  })
  t.same((await call('GET', `${P}/state`)).body, {
    blocklist_count: 0,
    ip_allocations_count: 0,
    vxlan_peers_count: 0,
    floating_ips_count: 0,
    tenants_count: 0,
  })
  t.same((await call('GET', `${P}/join-codes`)).body, { join_codes: [] })
})

t.test('cluster-03 the counts are of what this node has', async (t) => {
  const { agent, call } = await buildAgent(t)
  await call('POST', '/api/v1/tenant', { name: 'acme' })
  await call('POST', '/api/v1/ipam/pools', { name: 'p', subnet: '10.0.0.0/24' })
  await call('POST', '/api/v1/ipam/allocate', { pool_id: 1 })
  agent.gates.lockout.impose({ address: '192.0.2.1', until: new Date(Date.now() + 60_000).toISOString(), failures: 3 })
  t.match((await call('GET', `${P}/state`)).body, { blocklist_count: 1, tenants_count: 1, ip_allocations_count: 1 })
})

t.test('cluster-04 cluster-05 cluster-07 where clustering is not enabled nobody joins or leaves', async (t) => {
  const node = { node_id: 'n2', address: '192.0.2.2' }
  for (const config of [{}, { cluster_enabled: 'on' }, { cluster_address: '192.0.2.1' }]) {
    const { call, logged } = await buildArea(t, 'cluster', { only, config })
    for (const [path, body] of [
      ['join', node],
      ['leave', undefined],
    ] as const) {
      const got = await call('POST', `${P}/${path}`, body)
      t.same([got.status, got.body], [503, OFF], path)
    }
    const empty = await call('POST', `${P}/join`, {})
    t.same([empty.status, empty.body], [503, OFF], 'before the body is looked at')
    t.ok(
      logged.some(({ why }) => typeof why === 'string'),
      'the log says why',
    )
  }
  const enabled = { cluster_enabled: 'on', cluster_address: '192.0.2.1' }
  const { call } = await buildArea(t, 'cluster', { only, config: enabled })
  for (const field of ['node_id', 'address'] as const) {
    const { [field]: _, ...rest } = node
    const { status, body } = await call('POST', `${P}/join`, rest)
    t.same([status, body.error], [400, `${field} is required`])
  }
  for (const node_id of ['', '-n', 'n 2', 'n/2', 'n=2', 'n,2', 'n'.repeat(64), 'ä']) {
    t.equal((await call('POST', `${P}/join`, { ...node, node_id })).status, 400, node_id)
  }
  for (const address of [
    '',
    'host',
    '192.0.2.0/24',
    'fe80::1',
    'fe80::1%eth0',
    '224.0.0.1',
    'ff02::1',
    '::',
    '0.0.0.0',
  ]) {
    t.equal((await call('POST', `${P}/join`, { ...node, address })).status, 400, address)
  }
})

t.test('cluster-06 a node that is in no cluster has left', async (t) => {
  const { call } = await buildArea(t, 'cluster', {
    only,
    config: { cluster_enabled: 'on', cluster_address: '192.0.2.1' },
  })
  const { status, body } = await call('POST', `${P}/leave`)
  t.same([status, body], [200, { status: 'left' }])
  t.match((await call('GET', P)).body, { enabled: true, members: 1 })
})

t.test('cluster-09 cluster-10 what is not there is not found, and a node does not remove itself', async (t) => {
  const { agent, call } = await buildArea(t, 'cluster', { only })
  const code = await call('DELETE', `${P}/join-codes/jc-0f3a5b7c9d1e`)
  t.same([code.status, code.body.error], [404, 'join code jc-0f3a5b7c9d1e not found'])
  const gone = await call('DELETE', `${P}/members/n9`)
  t.same([gone.status, gone.body.error], [404, 'member n9 not found'])
  const [peers] = [...agent.elsewhere.peers]
  t.equal((await call('DELETE', `${P}/members/${peers?.self()}`)).status, 409)
})

t.test('D102 outside a cluster a node is known to itself alone', async (t) => {
  const { agent, call } = await buildArea(t, 'cluster', { only })
  const [peers] = [...agent.elsewhere.peers]
  t.equal((await call('GET', '/api/v1/rules', undefined, { 'x-node': peers?.self() ?? '' })).status, 200)
  t.equal((await call('GET', '/api/v1/rules', undefined, { 'x-node': 'n2' })).status, 404)
})

t.test('gate-09 gate-10 lic-11 five routes need no plan, and three changes are never frozen', async (t) => {
  const config = { cluster_enabled: 'on', cluster_address: '192.0.2.1' }
  const { call } = await buildArea(t, 'cluster', { only, licensed: false, config })
  for (const [method, path, status] of [
    ['GET', '/status', 200],
    ['GET', '/join-codes', 200],
    ['DELETE', '/join-codes/jc-1', 404],
    ['DELETE', '/members/n9', 404],
    ['POST', '/leave', 200],
    ['GET', '', 403],
    ['GET', '/state', 403],
    ['POST', '/join', 403],
  ] as const) {
    t.equal((await call(method, P + path)).status, status, `${method} ${path}`)
  }
})

t.test('gate-09 nor does the command line make or join a cluster without it', async (t) => {
  const config = { cluster_enabled: 'on', cluster_address: '192.0.2.1' }
  const { agent } = await buildArea(t, 'cluster', { only, licensed: false, config })
  const { where, close } = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => close(0))
  const local = overSocket(where)
  for (const [path, body] of [
    ['join-codes', {}],
    ['join', { code: 'x' }],
  ] as const) {
    t.equal((await local('POST', `/control/v1/cluster/${path}`, body)).status, 403, path)
  }
  t.match((await local('GET', '/control/v1/cluster')).body, { enabled: true, peers: [] })
})

t.test('D32 D113 an area that says that it ails is not serving', async (t) => {
  const { agent, call } = await buildArea(t, 'cluster', { only })
  t.equal(agent.ailing('cluster'), undefined)
  const context = clusterOf(agent.config).context
  context.ails({ what: 'no majority', remedy: 'start the others' })
  t.equal(agent.ailing('cluster'), 'no majority')
  t.same(agent.troubles(), [], 'the node as a whole serves')
  t.match((await call('GET', '/api/v1/status')).body, { status: 'degraded', warnings: ['no majority'] })
  context.ails(undefined)
  t.equal((await call('GET', '/api/v1/status')).body.status, 'running')
  t.equal(agent.ailing('cluster'), undefined)
})

t.test('D97 D113 the documents name the routes, events and header of the cluster', async (t) => {
  const { call } = await buildAgent(t)
  const { operations, asyncapi, answerProblems } = await servedDocuments(call)
  for (const path of ['', '/status', '/state', '/join-codes']) {
    t.same(answerProblems('GET', P + path, await call('GET', P + path)), [], path)
  }
  const own = operations.filter(([, { tags }]) => tags.includes('cluster'))
  t.equal(own.length, 8)
  const messages = Object.keys(asyncapi.components.messages)
  for (const type of ['cluster_member.added', 'cluster_member.state_changed', 'join_code.created']) {
    t.ok(messages.includes(type), type)
  }
})
