/** The rows of a node and what a model of etcd tells, in an order and at moments that a real one seldom finds. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { defineArea } from '../../../core/area.ts'
import { system } from '../../../core/state/events.ts'
import { buildAgent } from '../../../test/build.ts'
import type { Etcd, WatchListener } from '../etcd/client.ts'
import type { KeyValue } from '../etcd/words.ts'
import { rowKey } from '../keys.ts'
import { openReplica, type Replica } from '../replicate/replica.ts'
import { makeParent, openTrialStore, PARENTS, until } from './node.ts'

const parent = (id: number, name: string, modRevision: number): KeyValue => {
  const row = { id, name }
  return { key: rowKey(PARENTS, row), value: JSON.stringify(row), createRevision: modRevision, modRevision }
}
const told = ({ key, value, modRevision: revision }: KeyValue) => ({ key, value, revision })

async function openModel(t: typeof import('tap').default | import('tap').Test) {
  const model = { rows: [] as KeyValue[], revision: 10, gate: Promise.resolve(), reading: 0 }
  const watches: WatchListener[] = []
  const etcd = {
    watch(_prefix: string, _from: number, listener: WatchListener) {
      watches.push(listener)
      return () => {}
    },
    async range(prefix: string) {
      const answer = { kvs: prefix === '/r/' ? [...model.rows] : [], more: false, revision: model.revision }
      model.reading++
      await model.gate
      return answer
    },
    txn: async () => ({ succeeded: true, revision: ++model.revision }),
  } as unknown as Etcd
  let replica: Replica | undefined
  const plugin = (folder: string) => pathToFileURL(join(import.meta.dirname, folder, 'index.js')).href
  const cluster = defineArea(plugin('..'), {
    name: 'cluster',
    prefixes: ['/cluster'],
    routes() {},
    replicator(context) {
      replica = openReplica(context, {
        writable: () => true,
        cutOff() {},
        told() {
          throw new TypeError('not understood')
        },
        reloaded() {},
      })
      return replica
    },
  })
  const trial = defineArea(plugin('trial'), {
    name: 'trial',
    prefixes: ['/trial'],
    routes() {},
    replicates: [PARENTS],
  })
  const { agent } = await buildAgent(t, {
    only: ['node'],
    extraAreas: [cluster, trial],
    openStore: (dir) => openTrialStore(dir),
  })
  agent.store.write.run(
    sql`insert into cluster_self (id, mode, node, cluster, address, peer_port, initial_cluster, revision, shares)
      values (1, 'member', 'n1', 'c', '127.0.0.1', 1, '', 1, ${replica?.shares})`,
  )
  replica?.start(etcd)
  t.teardown(() => replica?.stop())
  await until(() => watches[0], 'it watches')
  const change = <T>(rule: (tx: typeof agent.store.write) => T) =>
    agent.pipeline.mutate('trial', system('test'), async (tx) => ({ result: rule(tx), touch: [], events: [] }))
  const names = () =>
    agent.store.read.all<{ name: string }>(sql`select * from trial_parents order by id`).map((row) => row.name)
  return { model, watches, change, names }
}

t.test('while all rows are taken over anew, only what is shared waits', async (t) => {
  const { model, watches, change, names } = await openModel(t)
  let open = () => {}
  model.gate = new Promise((resolve) => {
    open = resolve
  })
  model.rows = [parent(1, 'theirs', 9)]
  watches[0]?.end({ compacted: true })
  await until(() => model.reading > 0, 'it reads')
  await change(() => {})
  const later = change(makeParent('later'))
  await change(() => {})
  t.same(names(), [], 'etcd has not answered')
  open()
  await later
  t.same(names(), ['theirs', 'later'])
})

t.test('what the store has already is skipped, and what is not understood beside rows stops nothing', async (t) => {
  const { model, watches, names } = await openModel(t)
  model.rows = [parent(1, 'new', 9)]
  watches[0]?.end({ compacted: true })
  const second = await until(() => watches[1], 'it watches again')
  second.events([told(parent(1, 'old', 5))], 5)
  second.events([told({ ...parent(1, '', 11), key: '/b/x' })], 11)
  second.events([told(parent(2, 'next', 12))], 12)
  await until(() => names().length > 1, 'the next')
  t.same(names(), ['new', 'next'])
  t.equal(watches.length, 2)
})

t.test('a row that cannot come any more has all rows taken over anew', async (t) => {
  const { model, watches, change, names } = await openModel(t)
  await change(makeParent('taken'))
  model.rows = [parent(1, 'taken', 11), parent(7, 'renamed', 10)]
  watches[0]?.events([told(parent(7, 'taken', 5))], 5)
  await until(() => names().length > 1, 'the other row')
  t.same(names(), ['taken', 'renamed'])
})
