/**
 * After any sequence of changes the plane holds what a full rendering would, and the kernel what the plane was told.
 * CHANGES and BURSTS set how many (short by default), SEED makes a run repeatable.
 */
import t from 'tap'
import { controlOf } from '../../../core/test/control.ts'
import { requireRoot } from '../../../test/netns.ts'
import { SEED } from '../../../test/seed.ts'
import { workloadNode } from '../../../test/workload.ts'
import { desired } from '../desired.ts'
import { AREAS, billing } from './area.ts'
import { Changes } from './changes.ts'
import { dump, NOTHING } from './node.ts'

const CHANGES = Number(process.env.CHANGES ?? 250)
const BURSTS = Number(process.env.BURSTS ?? 4)

t.test('D107 any sequence of changes: what was rendered bit by bit is what is rendered at once', async (t) => {
  t.comment(`CHANGES=${CHANGES} SEED=${SEED}`)
  const { agent, plane } = await billing(t, { only: [...AREAS, 'compute'] })
  const changes = new Changes(await controlOf(t, agent), SEED)
  await changes.begin()
  const inOrder = (entries: Iterable<{ key: string }>) => [...entries].sort((a, b) => (a.key < b.key ? -1 : 1))
  for (let n = 0; n < CHANGES; n++) {
    await changes.one()
    const held = inOrder([...plane.entries.values()].filter(({ key }) => key.startsWith('billing/')))
    const rendered = inOrder(desired.all(agent.store.read, agent.config))
    if (JSON.stringify(held) === JSON.stringify(rendered)) continue
    t.same(held, rendered, `after change ${n}`)
    break
  }
  for (const kind of ['network', 'block', 'resume', 'limit', 'unlimit']) {
    t.ok(changes.done.has(kind), `control: ${kind} succeeded at times`)
  }
  await changes.clear()
  t.same(
    [...plane.entries.keys()].filter((key) => key.startsWith('billing/')),
    [],
  )
})

t.test('D107 any sequence of changes: the kernel holds what is stored', async (t) => {
  if (!requireRoot(t)) return
  t.comment(`BURSTS=${BURSTS} SEED=${SEED}`)
  const node = await workloadNode(t)
  const changes = new Changes(node.agent.call, SEED)
  await changes.begin()
  t.same(dump(node), { nets: [[1, { flags: 0, bucket: 0, rate: 5 }]], any: 1 })
  const differing: unknown[] = []
  for (let burst = 0; burst < BURSTS && differing.length === 0; burst++) {
    for (let n = 0; n < 12; n++) await changes.one()
    const { status, found } = await node.ok('POST', '/control/v1/drift', { dry_run: true })
    if (status !== 'clean') differing.push(found)
  }
  t.same(differing, [])
  await changes.clear()
  t.same(dump(node), NOTHING, 'no row is left')
})
