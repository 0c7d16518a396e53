/** Stores that differ from what etcd has, and what becomes of them. */
import '../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { put } from '../engine.ts'
import { enter, makeParent, startNode, until, untilSame } from './node.ts'

requireRoot(t)

t.test('who goes on alone keeps what its etcd has forgotten, and whoever enters then has it too', async (t) => {
  const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
  await a.change(makeParent('before'))
  await a.engine.found()
  await enter(a, b)
  await b.change(makeParent('of both'))
  await a.built.agent.close()
  await b.built.agent.close()
  // As after a SIGKILL between etcd's acknowledgement and its note of it.
  b.edit("insert into trial_parents (id, name) values (77, 'acknowledged')")
  b.edit('insert into cluster_own select revision + 1 from cluster_self')
  b.edit('update cluster_self set revision = revision + 1')
  await b.start()
  await b.engine.recover()
  await b.change(makeParent('alone'))
  await enter(b, c)
  await untilSame([b, c])
  for (const name of ['before', 'of both', 'acknowledged', 'alone']) t.match(c.rows(), name)
  await c.change(makeParent('after'))
  await untilSame([b, c])
})

t.test('who goes on alone gives up what no store takes', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await enter(a, b)
  await a.change(makeParent('before'))
  const row = JSON.stringify({ id: 66, name: null })
  await b.engine.records.transact([], [put('/r/trial_parents/=66', row)])
  await until(() => a.built.logged.some(({ msg }) => String(msg).includes('could not be taken over')), 'it is refused')
  await b.built.agent.close()
  await a.engine.recover()
  await a.change(makeParent('alone'))
  await enter(a, await startNode(t, 3))
  t.match(a.rows(), 'before')
})

t.test('a recovery that the agent did not finish is finished at its next start', async (t) => {
  const a = await startNode(t, 1)
  await a.engine.found()
  await a.change(makeParent('x'))
  await a.built.agent.close()
  a.edit("insert into trial_parents (id, name) values (77, 'acknowledged')")
  a.edit("update cluster_self set mode = 'recovering'")
  await a.start()
  await until(() => a.engine.standing()?.writable, 'it leads itself')
  await a.change(makeParent('after'))
  const b = await startNode(t, 2)
  await enter(a, b)
  await untilSame([a, b])
  t.match(b.rows(), 'acknowledged')
})

t.test('a member whose store is ahead of the cluster takes everything over anew', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.engine.found()
  await enter(a, b)
  await b.change(makeParent('kept'))
  await untilSame([a, b])
  await b.built.agent.close()
  b.edit("update trial_parents set name = 'never'")
  b.edit('update cluster_self set revision = revision + 1000')
  await b.start()
  for (const node of [a, b]) await until(() => node.engine.standing()?.writable, 'there is a majority again')
  await a.change(makeParent('after'))
  await untilSame([a, b])
  t.match(b.rows(), 'kept')
  await b.change(makeParent('again'))
  await untilSame([a, b])
})
