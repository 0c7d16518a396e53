/** Whoever may open a map may rewrite what the programs judge by. */
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { requireRoot } from './netns.ts'
import { machine, network } from './pins.ts'
import { workloadNode } from './workload.ts'

requireRoot(t)

t.test('nobody but root may open what is pinned, nor look what there is', async (t) => {
  const node = await workloadNode(t)
  await machine(node, 'a', await network(node, 'mine', '10.1.0.0/24'))
  const find = (...which: string[]) =>
    execFileSync('find', [`/sys/fs/bpf/${node.ns.name}`, ...which], { encoding: 'utf8' })
      .split('\n')
      .filter(Boolean)
  t.ok(find('-type', 'f').length > 20, 'maps, programs and links')
  t.same(find('-type', 'f', '-perm', '/077'), [])
  t.same(find('-type', 'd', '-perm', '/077'), [])
})
