/** Areas that are off for a while on a member: the one that keeps the cluster, and one that replicates. */
import '../../../test/inside.ts'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { enter, makeParent, startNode, statusOf, until, untilSame } from './node.ts'

requireRoot(t)

t.test('areas that were off', async (t) => {
  const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
  for (const name of ['stays', 'changes', 'goes']) await a.change(makeParent(name))
  await a.engine.found()
  await enter(a, b)

  await t.test('without the area of the cluster, what members share cannot change on a member', async (t) => {
    const before = b.rows()
    await b.built.agent.close()
    await b.start('cluster')
    t.equal(await statusOf(b.change(makeParent('by nobody'))), 503)
    t.equal(b.rows(), before)
    await b.built.agent.close()
    await b.start()
    await until(() => b.engine.standing()?.writable, 'it is back')
    await b.change(makeParent('together'))
    await untilSame([a, b])
  })

  await t.test('an area that is on again has what it missed', async (t) => {
    await b.built.agent.close()
    await b.start('trial')
    for (const node of [a, b]) await until(() => node.engine.standing()?.writable, 'it follows')
    await a.change((tx) => void tx.run(sql`update trial_parents set name = 'changed' where name = 'changes'`))
    await a.change((tx) => void tx.run(sql`delete from trial_parents where name = 'goes'`))
    await a.change(makeParent('comes'))
    await until(async () => {
      const told = b.built.agent.store.read.get<{ revision: number }>(sql`select revision from cluster_self`)
      return (
        Number(told?.revision) >=
        Number(a.built.agent.store.read.get<{ revision: number }>(sql`select revision from cluster_self`)?.revision)
      )
    }, 'it has passed by')
    t.match(b.rows(), 'goes')
    await b.built.agent.close()
    await b.start()
    await untilSame([a, b])
    t.match(b.rows(), 'comes')
  })

  await t.test('rows of its own are neither given up nor built upon', async (t) => {
    await b.built.agent.close()
    await b.start('trial')
    await until(() => b.built.logged.some(({ msg }) => /taken over anew/.test(String(msg))), 'it goes on without')
    await b.built.agent.close()
    b.edit("insert into trial_parents (id, name) values (99, 'of its own')")
    await b.start()
    await until(() => b.built.logged.some(({ msg }) => /could not be taken over/.test(String(msg))), 'it says so')
    t.equal(await statusOf(b.change(makeParent('on that'))), 503)
    t.match(b.rows(), 'of its own')
    await b.built.agent.close()
    b.edit('delete from trial_parents where id = 99')
    await b.start()
    await untilSame([a, b])
  })

  await t.test('nobody founds or enters a cluster without an area that replicates', async (t) => {
    await c.built.agent.close()
    await c.start('trial')
    t.equal(await statusOf(c.engine.found()), 409)
    await until(() => a.engine.standing()?.writable, 'b is back')
    t.equal(await statusOf(enter(a, c)), 409)
    t.equal(c.engine.standing(), undefined)
    await c.built.agent.close()
    await c.start('cluster')
    await c.change(makeParent('alone'))
    t.match(c.rows(), 'alone', 'and who is in none needs no cluster')
  })
})
