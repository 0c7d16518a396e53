/** A change of this node comes into its store before older ones of the same row: the newest counts, whatever comes first. */
import { createHash } from 'node:crypto'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { type Etcd, EtcdError } from '../etcd/client.ts'
import { unchanged } from '../etcd/words.ts'
import { changeKey, rowKey } from '../keys.ts'
import { openModelled, parent, told, watching } from './modelled.ts'
import { PARENTS, until } from './node.ts'

const KEY = rowKey(PARENTS, { id: 7 })
const own = (tx: Parameters<Parameters<Awaited<ReturnType<typeof openModelled>>['change']>[0]>[0]) =>
  void tx.run(sql`insert into trial_parents (id, name) values (7, 'own')`)

/** The record that a transaction puts beside the rows. */
function recordIn(ops: Parameters<Etcd['txn']>[1]): string {
  const record = ops.find((op) => 'request_put' in op && op.request_put.key.toString() === changeKey('n1'))
  return record && 'request_put' in record ? record.request_put.value.toString() : ''
}

for (const answer of ['told', 'lost'] as const) {
  t.test(`what others made and deleted before does not touch an own row whose answer was ${answer}`, async (t) => {
    const node = await openModelled(t, 10)
    const watch = await watching(node)
    let record = ''
    // At 11 others have made row 7, at 12 they have deleted it: it is absent when this node makes it.
    node.etcd.txn = async (_compares, ops) => {
      // The second time it is asked whether the first is in force.
      if (record !== '') return { succeeded: false, revision: 13 }
      record = recordIn(ops)
      if (answer === 'lost') throw new EtcdError(4, 'Deadline exceeded')
      return { succeeded: true, revision: 13 }
    }
    node.etcd.get = async () => ({ key: changeKey('n1'), value: record, createRevision: 13, modRevision: 13 })
    await node.change(own)
    watch.events([told(parent(7, 'theirs', 11))], 11)
    watch.events([{ key: KEY, value: undefined, revision: 12 }], 12)
    watch.events([told(parent(7, 'own', 13)), { key: changeKey('n1'), value: record, revision: 13 }], 13)
    await node.replica.caughtUp(13)
    t.match(node.all(sql`select id, name from trial_parents`), [{ id: 7, name: 'own' }])
    t.same(node.all(sql`select * from cluster_rows where key like '/r/%'`), [{ key: KEY, revision: 13 }])
    t.same(node.all(sql`select revision from cluster_self`), [{ revision: 13 }])
    t.same(node.all(sql`select revision from cluster_own`), [])
  })
}

t.test('what others change after an own change counts', async (t) => {
  const node = await openModelled(t, 10)
  const watch = await watching(node)
  node.etcd.txn = async () => ({ succeeded: true, revision: 11 })
  await node.change(own)
  watch.events([told(parent(7, 'own', 11))], 11)
  watch.events([told(parent(7, 'theirs', 12))], 12)
  await node.replica.caughtUp(12)
  t.same(node.names(), ['theirs'])
  watch.events([{ key: KEY, value: undefined, revision: 13 }], 13)
  await node.replica.caughtUp(13)
  t.same(node.names(), [])
  t.same(node.all(sql`select * from cluster_rows where key like '/r/%'`), [])
})

t.test('a change that was shut out leaves nothing, and the next knows what did it', async (t) => {
  const node = await openModelled(t, 10)
  const watch = await watching(node)
  const compared: unknown[] = []
  let sent = 0
  node.etcd.txn = async (compares) => {
    compared.push(compares.at(-1))
    if (++sent === 1) throw new EtcdError(4, 'Deadline exceeded')
    return { succeeded: sent !== 3, revision: 10 + sent }
  }
  const refused = await node.change(own).catch((error: { message: string }) => error.message)
  t.match(refused, /was not made and never will be/)
  t.same(node.names(), [])
  // The third is outrun by what shut the first out, and begins anew once the watch has told of that.
  const again = node.change(own)
  await until(() => sent === 3, 'it was outrun')
  watch.events([{ key: changeKey('n1'), value: JSON.stringify({ node: 'n1' }), revision: 12 }], 13)
  await again
  t.same(
    compared,
    [0, 0, 0, 12].map((revision) => unchanged(changeKey('n1'), revision)),
  )
  t.same(node.names(), ['own'])
  t.same(node.all(sql`select * from cluster_rows where key like '/change/%'`), [{ key: changeKey('n1'), revision: 14 }])
})

t.test('a store of an earlier version that lacks a row has it after the upgrade', async (t) => {
  const stored = parent(7, 'own', 9)
  const change = (node: string) => ({ ...stored, key: changeKey(node), value: '{}' })
  const rows = [parent(1, 'other', 8), stored, change('n1'), change('n2')]
  // What the version before called what it replicates.
  const earlier = createHash('sha256').update('trial_parents,id,name').digest('hex').slice(0, 16)
  const node = await openModelled(
    t,
    10,
    (tx) => {
      tx.run(sql`update cluster_self set shares = ${earlier}`)
      tx.run(sql`insert into trial_parents (id, name) values (1, 'other')`)
      tx.run(sql`insert into cluster_rows values (${rows[0]?.key}, 8)`)
    },
    rows,
  )
  await watching(node)
  t.same(node.names(), ['other', 'own'])
  t.same(node.all(sql`select * from cluster_rows order by key`), [
    { key: changeKey('n1'), revision: 9 },
    { key: rows[0]?.key, revision: 8 },
    { key: KEY, revision: 9 },
  ])
})
