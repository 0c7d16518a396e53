/** A former member that kept all it had, and a machine that has the address of a member: what it reaches of the cluster. */
import t from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { joinWith, newCode } from './given.ts'
import {
  ask,
  asOperator,
  doorPaths,
  isAnswered,
  isRefused,
  joinsBy,
  type Kept,
  keptBy,
  peerPaths,
  type Question,
} from './kept.ts'

requireRoot(t)
const P = '/api/v1'

t.test('cluster-10 who was a member of a cluster opens nothing of it by what it kept', async (t) => {
  const { nodes } = await nodesOn(t, 3)
  const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
  await joinBy(n1, n2)
  const { code: used } = await newCode(n2)
  succeeded(await joinWith(n3, used))
  await complete(nodes)
  const kept = await keptBy(n3, n2)
  const { code: unused } = await newCode(n3)
  const joins = await joinsBy([used, unused], n3, n1)
  const members = { host: n1.address, port: 7074, path: '/members' }
  const client = { host: '127.0.0.1', port: 7075, path: '/health' }
  // From the address of another member, which no filter of addresses keeps out.
  t.equal(await ask(n2.ns, kept.forged as Kept, members), '200', 'a member is heard, whatever name it gives itself')
  t.equal(await ask(n1.ns, kept.forged as Kept, client), '200')
  const [passed] = doorPaths(n1.address) as [Question]
  t.equal(await ask(n3.ns, kept.own as Kept, passed), '200', 'a member calls in the name of an operator')

  const outcomes = new Map<string, number>()
  let writing = true
  const writer = (async () => {
    for (let n = 0; writing; n++) {
      const name = `of the writer ${n}`
      outcomes.set(name, (await n1.agent.call('POST', `${P}/tenant`, { name })).status)
    }
  })()
  succeeded(await n1.agent.call('DELETE', `${P}/cluster/members/n3`))
  for (const node of [n1, n2]) {
    await eventually(`${node.id} says that all trust just those there are`, async () => {
      const { body } = await node.agent.call('GET', `${P}/cluster/status`)
      return (
        (body.trust as { state?: string } | undefined)?.state === 'current' && (body.peers as unknown[]).length === 1
      )
    })
  }
  writing = false
  await writer
  await complete([n1, n2])
  t.same(
    [...new Set(outcomes.values())].filter((status) => status !== 201 && status !== 503),
    [],
    'changes are made or refused',
  )
  for (const node of [n1, n2]) {
    await eventually(`${node.id} has all that was acknowledged`, async () => {
      const { body } = await node.agent.call('GET', `${P}/tenant`)
      const names = new Set((body.tenants as { name: string }[]).map(({ name }) => name))
      return [...outcomes].every(([name, status]) => status !== 201 || names.has(name))
    })
  }
  t.comment(`${[...outcomes.values()].filter((status) => status === 503).length} of ${outcomes.size} were refused`)

  const nothing = async (when: string) => {
    for (const [what, material] of Object.entries(kept)) {
      for (const { address: host } of [n1, n2]) {
        const from = host === n1.address ? n2 : n1
        for (const question of peerPaths(host)) {
          t.notOk(isAnswered(await ask(from.ns, material, question)), `${when}: ${what}: ${question.path} of etcd`)
        }
        for (const question of doorPaths(host)) {
          t.ok(isRefused(await ask(from.ns, material, question)), `${when}: ${what}: ${question.path} of the door`)
        }
      }
      t.notOk(isAnswered(await ask(n1.ns, material, client)), `${when}: ${what}: etcd's port for clients`)
      t.equal(await ask(n3.ns, material, members), 'SILENT', `${when}: ${what}: from its own address`)
    }
    for (const [material, question] of joins) {
      t.equal(await ask(n2.ns, material, question), '403', `${when}: a code that it came by, or made`)
    }
    for (const [what, material] of Object.entries(kept)) {
      const api = { host: n1.address, port: 7070, path: `${P}/rules`, headers: asOperator }
      t.equal(await ask(n2.ns, material, api), '401', `${when}: ${what}: no call of the API`)
    }
    t.equal((await n3.agent.call('GET', `${P}/rules`, undefined, { 'x-node': 'n1' })).status, 404, 'nor by X-Node')
  }
  await nothing('at once')
  for (const node of [n1, n2]) await node.agent.restart()
  await complete([n1, n2])
  await nothing('after a restart')
  succeeded(await n2.agent.call('POST', `${P}/tenant`, { name: 'afterwards' }))
})
