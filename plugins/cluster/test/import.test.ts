/** All rows into an etcd: by a rule that may run again, and of which nothing stays when it fails. */
import '../../../test/inside.ts'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import t from 'tap'
import type { Collection } from '../../../core/replication.ts'
import { requireRoot } from '../../../test/netns.ts'
import type { Etcd } from '../etcd/client.ts'
import { put } from '../etcd/words.ts'
import { CHANGE, META, ROWS } from '../keys.ts'
import { importRows } from '../replicate/copy.ts'
import { startBare } from './bare.ts'
import { makeParent, PARENTS, startNode } from './node.ts'

requireRoot(t)
const collections: ReadonlyMap<string, Collection> = new Map([[PARENTS.name, PARENTS]])

t.test('an import', async (t) => {
  const [node, { etcd }] = await Promise.all([startNode(t, 1), startBare(t)])
  await node.change((tx) => {
    for (let n = 0; n < 350; n++) makeParent(`p${n}`)(tx)
  })
  const { store, pipeline } = node.built.agent
  const kept = () => store.write.get<{ n: number }>(sql`select count(*) n from cluster_rows where key like '/r/%'`)?.n
  /** As in a mutation that fails in the end. */
  const inVain = (to: Etcd) =>
    pipeline.exclusively(async () => {
      store.begin()
      try {
        await importRows(store.write, to, collections, 'n1')
        await etcd.txn([], [put(META.imported, 'n1')])
        return kept()
      } finally {
        store.rollback(undefined)
      }
    })

  await t.test('may be made again', async (t) => {
    t.equal(await inVain(etcd), 350)
    await node.change((tx) => void tx.run(sql`delete from trial_parents where id > 200`))
    t.equal(await inVain(etcd), 200)
    t.equal((await etcd.range(ROWS)).kvs.length, 200, 'what the first one brought is gone')
    await etcd.txn([], [put('/change/n2', '{}')])
    await inVain(etcd)
    const marks = (await etcd.range(CHANGE)).kvs.map(({ key }) => key)
    t.same(marks, ['/change/n1'], 'what members have given up is shut out')
  })

  await t.test('that fails writes nothing afterwards', async (t) => {
    let calls = 0
    const failing = {
      async txn() {
        // First it clears the etcd, then it begins its own changes.
        const call = calls++
        if (call === 2) throw new Error('no')
        if (call === 3) await delay(100)
        return { succeeded: true, revision: 7 }
      },
    } as unknown as Etcd
    await t.rejects(inVain(failing), /^no$/)
    await delay(150)
    t.equal(kept(), 0)
  })
})
