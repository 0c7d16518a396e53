/** VLAN lockdown on real frames. */
import t from 'tap'
import { arrives as passes, tap } from '../../../test/frames.ts'
import { requireRoot } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'

requireRoot(t)

t.test('vlan-02 vlan-03 vlan-05 vlan-06 frames of a locked VLAN are dropped, others pass', async (t) => {
  const node = await workloadNode(t)
  const [a, b] = [node.guest('a'), node.guest('b')]
  await node.guarded(a, b)
  const [from, to] = [tap(t, a.ns), tap(t, b.ns)]
  const arrives = (...tags: number[]) => passes(from, to, { tags })
  t.ok(await arrives(7), 'an empty table allows every VLAN')
  t.ok(await arrives(8))

  await node.ok('POST', '/api/v1/vlan', { vlan_id: 7, allowed: false })
  t.notOk(await arrives(7), 'locked')
  t.notOk(await arrives(8, 7), 'locked behind another tag')
  t.notOk(await arrives(7, 8), 'locked before another tag')
  t.ok(await arrives(8), 'other VLANs pass')
  t.ok(await arrives(), 'untagged frames pass')

  await node.agent.kill('SIGKILL')
  t.notOk(await arrives(7), 'without an agent')
  await node.agent.restart()
  t.notOk(await arrives(7), 'after a restart')
  t.same(await node.ok('GET', '/api/v1/vlan'), { vlans: [{ vlan_id: 7, allowed: false }] })

  await node.ok('DELETE', '/api/v1/vlan/7')
  t.ok(await arrives(7), 'cleared')
})
