/** Removals while something else goes wrong, by real agents. MOMENTS, in ms, sets after which times an agent is killed (few by default). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { certificatesIn, fingerprintsOf } from '../authority.ts'
import { askEtcd } from './former-version.ts'
import { newCode } from './given.ts'
import { ask, type Kept, keptBy } from './kept.ts'

const P = '/api/v1'
const MOMENTS = (process.env.MOMENTS ?? '40,300').split(',').map(Number)

requireRoot(t)
const { nodes } = await nodesOn(t, 4)
const [n1, n2, n3, n4] = nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode]
for (const node of [n2, n3, n4]) await joinBy(n1, node)
await complete(nodes)

const isOffline = async ({ id }: ClusterNode) =>
  (await standing(n1)).peers.some((peer) => peer.id === id && peer.status === 'offline')
const remove = (by: ClusterNode, { id }: ClusterNode) => by.agent.call('DELETE', `${P}/cluster/members/${id}`)
const trustedBy = ({ agent }: ClusterNode) =>
  fingerprintsOf(certificatesIn(readFileSync(join(agent.stateDir, 'cluster', 'ca.pem'), 'utf8')))
const ownAuthority = ({ agent }: ClusterNode) =>
  fingerprintsOf([readFileSync(join(agent.stateDir, 'cluster', 'authority.pem'), 'utf8')])

/** They are the members, and each trusts their authorities and no other. */
async function settled(members: readonly ClusterNode[]): Promise<void> {
  await complete(members)
  const all = members.flatMap(ownAuthority).sort().join()
  for (const node of members) {
    await eventually(`${node.id} trusts just those there are`, async () => {
      const { body } = await node.agent.call('GET', `${P}/cluster/status`)
      return (body.trust as { state?: string } | undefined)?.state === 'current' && trustedBy(node).join() === all
    })
  }
}

/** Its etcd hears nobody and nobody hears it; its agent does. */
function deafen({ ns }: ClusterNode): () => void {
  for (const hook of ['input', 'output']) {
    ns.run('nft', `add table inet deaf; add chain inet deaf ${hook} { type filter hook ${hook} priority -300; }`)
    ns.run('nft', `add rule inet deaf ${hook} tcp dport 7074 drop; add rule inet deaf ${hook} tcp sport 7074 drop`)
  }
  return () => void ns.run('nft', 'delete table inet deaf')
}

t.test('who was removed cannot tell a member that has not heard of it that it was removed, too', async (t) => {
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

t.test('the node that was removed goes on with all it had, and may come again by another code', async (t) => {
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

t.test('codes that were good before a removal are good no more', async (t) => {
  const { id } = await newCode(n3)
  succeeded(await remove(n1, n3))
  const { body } = await n2.agent.call('GET', `${P}/cluster/join-codes`)
  const states = new Map((body.join_codes as { id: string; state: string }[]).map((code) => [code.id, code.state]))
  t.equal(states.get(id), 'revoked')
  await eventually('n3 knows', async () => (await standing(n3)).peers.length === 0)
  await joinBy(n1, n3)
  await settled(nodes)
})

t.test('a member whose agent stood still hears a leader that came meanwhile, and drops who went', async (t) => {
  const before = ownAuthority(n3)
  // Its etcd goes on, without which nobody could be admitted.
  n4.agent.child.kill('SIGSTOP')
  t.teardown(() => n4.agent.child.kill('SIGCONT'))
  await eventually('n4 is away', () => isOffline(n4))
  succeeded(await remove(n1, n3))
  await eventually('n3 knows', async () => (await standing(n3)).peers.length === 0)
  await joinBy(n1, n3)
  t.not(ownAuthority(n3).join(), before.join(), 'it has another authority now')
  await eventually('n3 votes', async () =>
    (await standing(n1)).peers.some((p) => p.id === 'n3' && p.role !== 'learner'),
  )
  askEtcd(n1, '/meta/yield', { put: { '/meta/yield': 'n3' } })
  await eventually('n3 leads', async () => (await standing(n3)).is_leader)
  askEtcd(n1, '/meta/yield', { removeAll: ['/meta/yield'] })
  n4.agent.child.kill('SIGCONT')
  await settled(nodes)
  t.ok(
    n4.agent.logged.some(({ msg }) => String(msg).includes('names members that came while')),
    'it has asked whom to trust',
  )
})

t.test('a member that was stopped during a removal takes it up when it is back', async (t) => {
  await n4.agent.kill()
  await eventually('n4 is away', () => isOffline(n4))
  succeeded(await remove(n1, n3))
  const { trust } = (await n1.agent.call('GET', `${P}/cluster/status`)).body as { trust?: { behind: string[] } }
  t.ok(trust?.behind.includes('n4'), 'until then it is said to be behind')
  await n4.agent.restart()
  await settled([n1, n2, n4])
})

t.test('a removal that would cost the majority is refused in words and changes nothing', async (t) => {
  await n4.agent.kill()
  await eventually('n4 is away', () => isOffline(n4))
  const { status, text } = await remove(n1, n2)
  t.equal(status, 503)
  t.match(text, /too few of the other members are online/)
  await n4.agent.restart()
  await settled([n1, n2, n4])
})

t.test('an agent that is killed while it removes a member has removed it, or does when asked again', async (t) => {
  for (const ms of MOMENTS) {
    const asked = remove(n1, n4)
    asked.catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, ms))
    await n1.agent.kill('SIGKILL')
    await n1.agent.restart()
    await eventually('it is removed', async () => [200, 404].includes((await remove(n1, n4)).status))
    await settled([n1, n2])
    await eventually('n4 knows', async () => (await standing(n4)).peers.length === 0, 120_000)
    t.pass(`killed after ${ms} ms`)
    await joinBy(n2, n4)
    await settled([n1, n2, n4])
  }
})
