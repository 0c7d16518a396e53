/** Members lie in the class of their pool, whatever was there before: the kernel never moves a class. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, type Place, POOLS, pairsOf, place } from './lab.ts'

requireRoot(t)

/** Of each class of a MAC, by device: its minor number and where it lies. */
const parents = (it: Place): string[] =>
  pairsOf(it)
    .flatMap((device) => [
      ...it.node.ns
        .run('tc', 'class', 'show', 'dev', device)
        .matchAll(/class htb (1:[0-9a-f]+) (root|parent 1:[0-9a-f]+) leaf/g),
    ])
    .map(([, minor, parent]) => `${minor} ${parent}`)

t.test('bw-11 a limit that moves to another MAC and into a pool lies in the class of the pool', async (t) => {
  const it = await place(t, 2)
  const { node, mac } = it
  await node.ok('POST', POOLS, { id: 'p', total_bps: 8_000_000 })
  await node.ok('POST', BANDWIDTH, { id: 'l', target_mac: mac(1), rate_bps: 8_000_000 })
  t.same(parents(it), ['1:1 root', '1:1 root'])
  await node.ok('POST', BANDWIDTH, { id: 'l', target_mac: mac(2), pool_id: 'p' })
  t.same(parents(it), ['1:2 parent 1:a001', '1:2 parent 1:a001'])
})

t.test('bw-11 a class that others have put elsewhere is put back into its pool', async (t) => {
  const it = await place(t, 2)
  const { node, mac } = it
  await node.ok('POST', POOLS, { id: 'p', total_bps: 8_000_000 })
  await node.ok('POST', `${POOLS}/members`, { pool_id: 'p', member_mac: mac(1) })
  const before = parents(it)
  t.same(before, ['1:1 parent 1:a001', '1:1 parent 1:a001'])
  await node.agent.kill('SIGKILL')
  const [device = ''] = pairsOf(it)
  node.ns.run('tc', 'class', 'del', 'dev', device, 'classid', '1:1')
  node.ns.run('tc', 'class', 'add', 'dev', device, 'parent', '1:', 'classid', '1:1', 'htb', 'rate', '8mbit')
  t.notSame(parents(it), before)
  await node.agent.restart()
  await it.until('it is in its pool', () => JSON.stringify(parents(it)) === JSON.stringify(before))
})
