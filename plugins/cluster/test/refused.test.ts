/** What a node does when etcd refuses a change at a revision up to which the node has everything: its rows are not those of the cluster. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import type { Etcd } from '../etcd/client.ts'
import { put, unchanged } from '../etcd/words.ts'
import { changeKey, rowKey } from '../keys.ts'
import { type Modelled, openModelled, parent, told, watching } from './modelled.ts'
import { PARENTS, until } from './node.ts'

const KEY = rowKey(PARENTS, { id: 7 })
type Tx = Parameters<Parameters<Modelled['change']>[0]>[0]
const change = (tx: Tx) =>
  void tx.run(sql`insert into trial_parents (id, name) values (7, 'own') on conflict (id) do update set name = 'own'`)
const refusal = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: { status: number; message: string }) => `${error.status} ${error.message}`,
  )

/** Carries out what rests on row 7 as etcd has it. */
function judging({ model }: Modelled): Etcd['txn'] {
  return async (compares) => {
    const stands = model.rows.find(({ key }) => key === KEY)?.modRevision ?? 0
    const compared = compares.find(({ key }) => key.toString() === KEY)
    const holds = compared && 'mod_revision' in compared ? compared.mod_revision === stands : stands === 0
    return { succeeded: holds, revision: holds ? ++model.revision : model.revision }
  }
}

const wrong: Record<string, (tx: Tx) => void> = {
  'knows a row by a wrong revision': (tx) => {
    tx.run(sql`insert into trial_parents (id, name) values (7, 'theirs')`)
    tx.run(sql`insert into cluster_rows values (${KEY}, 5)`)
  },
  'lacks a row': () => {},
  'has a row that is gone': (tx) => {
    tx.run(sql`insert into trial_parents (id, name) values (7, 'theirs')`)
    tx.run(sql`insert into cluster_rows values (${KEY}, 5)`)
  },
}

for (const [what, store] of Object.entries(wrong)) {
  t.test(`a store that ${what} is mended by the first change that etcd refuses for it`, async (t) => {
    const rows = what.endsWith('gone') ? [] : [parent(7, 'theirs', 9)]
    const node = await openModelled(t, 10, store, rows)
    await watching(node)
    node.etcd.txn = judging(node)
    t.equal(await refusal(node.change(change)), 'done')
    t.same(node.names(), ['own'])
    t.same(node.all(sql`select revision from cluster_rows where key = ${KEY}`), [{ revision: 11 }])
  })
}

t.test('what is refused all the same is told at once, and the rows are not taken over again for it', async (t) => {
  const node = await openModelled(t, 10)
  await watching(node)
  let sent = 0
  node.etcd.txn = async () => {
    sent++
    return { succeeded: false, revision: 10 }
  }
  t.match(await refusal(node.change(change)), /^503 .*also after it has taken over/)
  t.equal(sent, 2, 'once more after the rows were taken over')
  const { reading } = node.model
  t.match(await refusal(node.change(change)), /^503 .*also after it has taken over/)
  t.equal(sent, 3)
  t.equal(node.model.reading, reading)
  t.same(node.names(), [])
})

t.test('a change that is outrun waits for what was first, and the rows are not taken over for it', async (t) => {
  const node = await openModelled(t, 10)
  const watch = await watching(node)
  const { reading } = node.model
  let sent = 0
  node.etcd.txn = async () => ({ succeeded: ++sent > 1, revision: 10 + sent })
  const own = node.change(change)
  await until(() => sent === 1, 'it was outrun')
  watch.events([told(parent(1, 'first', 11))], 11)
  await own
  t.same(node.names(), ['first', 'own'])
  t.equal(node.model.reading, reading)
})

t.test('a change that was under way when the agent ended is shut out at the start', async (t) => {
  const own = changeKey('n1')
  const { first } = await openModelled(t, 10, (tx) => void tx.run(sql`insert into cluster_rows values (${own}, 9)`))
  const [[compares, ops] = []] = first
  t.same([compares, ops], [[unchanged(own, 9)], [put(own, JSON.stringify({ node: 'n1' }))]])
  t.equal(first.length, 1)
})
