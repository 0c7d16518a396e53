import '../../../test/inside.ts'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { enter, makeParent, POLL_MS, startNode, statusOf, until, untilSame } from './node.ts'

requireRoot(t)

t.test(
  'a node that is left without a majority reads on, refuses changes, and goes on alone when told so',
  async (t) => {
    const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
    await a.change(makeParent('shared'))
    await a.engine.found()
    for (const node of [b, c]) await enter(a, node)
    await c.engine.quit()
    await a.built.agent.close()
    await until(() => b.engine.standing()?.writable === false, 'it knows')
    await t.rejects(b.change(makeParent('nobody hears')), { status: 503, message: /can be reached, so nothing they/ })
    t.match(b.rows(), 'shared')
    t.notMatch(b.rows(), 'nobody hears')
    t.equal(await statusOf(b.engine.quit()), 503)
    await b.engine.recover()
    await b.change(makeParent('alone'))
    await delay(3 * POLL_MS)
    t.same(
      b.engine.standing()?.members.map(({ id }) => id),
      ['n2'],
      'a cluster of one, whoever came last before',
    )
    await b.restart()
    await until(() => b.engine.standing()?.writable, 'it leads itself')
    await b.change(makeParent('still alone'))
    await b.engine.quit()
    t.match(b.rows(), 'still alone')
    t.equal(b.engine.standing(), undefined)
  },
)

t.test('a node with other rows does not enter, and stays what it was', async (t) => {
  const [a, b] = await Promise.all([startNode(t, 1), startNode(t, 2)])
  await a.change(makeParent('x'))
  await b.change(makeParent('y'))
  await a.engine.found()
  const before = b.rows()
  t.equal(await statusOf(enter(a, b)), 409)
  t.equal(b.rows(), before)
  t.equal(b.engine.standing(), undefined)
  await until(() => b.engine.tls() === undefined, 'nothing of the cluster is left')
  await b.change((tx) => void tx.run(sql`delete from trial_parents`))
  await until(() => a.engine.standing()?.members.length === 1, 'it is gone')
  t.ok(a.engine.standing()?.writable, 'who never came takes no cluster along')
  await a.engine.admit('n9', '127.0.0.9')
  await a.engine.expel('n9')
  t.ok(a.engine.standing()?.writable)
  await enter(a, b)
  await untilSame([a, b])
  await a.engine.expel('n2')
  t.equal(a.engine.standing(), undefined, 'who was the last to have come does')
})
