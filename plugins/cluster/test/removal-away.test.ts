/** Removals while another member is away, by real agents. */
import t from 'tap'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../../../test/cluster.ts'
import { requireRoot } from '../../../test/netns.ts'
import { onward } from '../../../test/onward.ts'
import { isOffline, lead, standStill } from './away.ts'
import { ownAuthority, remove, settled, trustOf } from './trusted.ts'

requireRoot(t)
const step = onward(t)
const { nodes } = await nodesOn(t, 4)
const [n1, n2, n3, n4] = nodes as [ClusterNode, ClusterNode, ClusterNode, ClusterNode]
for (const node of [n2, n3, n4]) await joinBy(n1, node)
await complete(nodes)

step('a member whose agent stood still hears a leader that came meanwhile, and drops who went', async (t) => {
  const before = ownAuthority(n3)
  // Its etcd goes on, without which nobody could be admitted, and does not lead, with which nobody could (leads-away.test.ts).
  await lead(n1, n1)
  const goOn = await standStill(n1, n4)
  t.teardown(goOn)
  succeeded(await remove(n1, n3))
  await eventually('n3 knows', async () => (await standing(n3)).peers.length === 0)
  await joinBy(n1, n3)
  t.not(ownAuthority(n3).join(), before.join(), 'it has another authority now')
  await eventually('n3 votes', async () =>
    (await standing(n1)).peers.some((p) => p.id === 'n3' && p.role !== 'learner'),
  )
  await lead(n1, n3)
  goOn()
  await settled(nodes)
  t.ok(
    n4.agent.logged.some(({ msg }) => String(msg).includes('names members that came while')),
    'it has asked whom to trust',
  )
})

step('a member that was stopped during a removal takes it up when it is back', async (t) => {
  await n4.agent.kill()
  await eventually('n4 is away', () => isOffline(n1, n4))
  succeeded(await remove(n1, n3))
  t.ok((await trustOf(n1))?.behind.includes('n4'), 'until then it is said to be behind')
  await n4.agent.restart()
  await settled([n1, n2, n4])
})

step('a removal that would cost the majority is refused in words and changes nothing', async (t) => {
  await n4.agent.kill()
  await eventually('n4 is away', () => isOffline(n1, n4))
  const { status, text } = await remove(n1, n2)
  t.equal(status, 503)
  t.match(text, /too few of the other members are online/)
  await n4.agent.restart()
  await settled([n1, n2, n4])
})
