import '../../../test/inside.ts'
import { sql } from 'drizzle-orm'
import t from 'tap'
import type { Db } from '../../../core/area.ts'
import { requireRoot } from '../../../test/netns.ts'
import { enter, makeParent, startNode, statusOf, type TestNode, until, untilSame } from './node.ts'

requireRoot(t)

const child =
  (parent: number, ip: string, owner = 'o') =>
  (tx: Db) =>
    void tx.run(sql`insert into trial_children values (${parent}, ${ip}, ${owner})`)
const revisions = ({ built }: TestNode) =>
  built.agent.store.read.all(sql`select * from cluster_rows where key like '/r/%' order by key`)

t.test('three members hold the same rows', async (t) => {
  const [a, b, c] = await Promise.all([startNode(t, 1), startNode(t, 2), startNode(t, 3)])
  const all = [a, b, c]
  await a.change(makeParent('before the cluster'))
  await a.change((tx) => {
    for (let ip = 0; ip < 350; ip++) child(1, `10.0.0.${ip}`)(tx)
  })
  await a.engine.found()
  await enter(a, b)
  await enter(a, c)
  await untilSame(all)
  t.match(b.rows(), 'before the cluster')

  await t.test('a change of any of them is with all', async (t) => {
    for (const node of all) await node.change(makeParent(`by ${node.engine.self}`))
    await untilSame(all)
    t.match(a.rows(), 'by n3')
    const { outbox } = b.built.agent
    const told = outbox.after(0, 1000).filter(({ type }) => type === 'trial.followed')
    t.match(told.at(-1)?.actor, { kind: 'system', label: 'test' }, 'the origin comes along')
    t.equal(told.at(-1)?.area, 'trial')
  })

  await t.test('what none may have twice is had once, and ids that meet give way', async (t) => {
    const outcomes = await Promise.all(all.map((node) => statusOf(node.change(makeParent('only once')))))
    t.equal(outcomes.filter((outcome) => outcome === 'done').length, 1, outcomes.join())
    const many = await Promise.all(
      all.flatMap((node) =>
        Array.from({ length: 10 }, (_, n) => statusOf(node.change(makeParent(`${node.engine.self} ${n}`)))),
      ),
    )
    t.same(new Set(many), new Set(['done']))
    await untilSame(all)
  })

  await t.test('what goes with another goes with it everywhere, also what comes at that moment', async (t) => {
    await t.test('in one transaction', async () => {
      await b.change((tx) => {
        tx.run(sql`delete from trial_children where parent = 1`)
        tx.run(sql`delete from trial_parents where id = 1`)
      })
      await untilSame(all)
      t.notMatch(c.rows(), '10.0.0.7"')
    })
    const id = await a.change(makeParent('short'))
    await untilSame(all)
    const race = await Promise.all([
      ...[1, 2, 3, 4].map((n) => statusOf(a.change(child(id, `1.1.1.${n}`, `x${n}`)))),
      statusOf(
        b.change((tx) => {
          tx.run(sql`delete from trial_children where parent = ${id}`)
          tx.run(sql`delete from trial_parents where id = ${id}`)
        }),
      ),
    ])
    t.equal(race.at(-1), 'done')
    await untilSame(all)
    t.same(b.built.agent.store.read.all(sql`select * from trial_children where parent = ${id}`), [])
  })

  await t.test('a row stays that others made and deleted while it was being made here', async (t) => {
    const id = await a.change(makeParent('busy'))
    await untilSame(all)
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    // What the others do comes to b, and waits behind its own change.
    const busy = b.built.agent.pipeline.exclusively(() => gate)
    const own = b.change(child(id, '10.0.0.1', 'b'))
    await a.change(child(id, '10.0.0.1', 'a'))
    await a.change((tx) => void tx.run(sql`delete from trial_children where parent = ${id}`))
    open()
    await Promise.all([busy, own])
    await a.change(makeParent('after all that'))
    // Who makes a change has it before what came from others meanwhile.
    await until(() => all.every((node) => node.rows().includes('after all that')), 'all have what came after')
    await untilSame(all)
    t.match(a.rows(), '"owner":"b"')
    for (const node of [b, c]) {
      t.equal(node.rows(), a.rows(), node.engine.self)
      t.same(revisions(node), revisions(a), `${node.engine.self} knows of the same revisions`)
    }
  })
})
