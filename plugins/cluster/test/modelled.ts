/** A node whose etcd is a model: what it tells, in an order and at moments that a real one seldom finds. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { sql } from 'drizzle-orm'
import { type Db, defineArea } from '../../../core/area.ts'
import { system } from '../../../core/state/events.ts'
import { buildAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import type { Etcd, WatchListener } from '../etcd/client.ts'
import type { KeyValue } from '../etcd/words.ts'
import { rowKey } from '../keys.ts'
import { openReplica, type Replica } from '../replicate/replica.ts'
import { openTrialStore, PARENTS, until } from './node.ts'

/** A row of `trial_parents` as etcd has it. */
export const parent = (id: number, name: string, modRevision: number): KeyValue => {
  const row = { id, name }
  return { key: rowKey(PARENTS, row), value: JSON.stringify(row), createRevision: modRevision, modRevision }
}
/** The same as the watch tells it. */
export const told = ({ key, value, modRevision: revision }: KeyValue) => ({ key, value, revision })

export interface Modelled {
  /** What a reader of all rows is answered, at which revision, and from when on. */
  model: { rows: KeyValue[]; revision: number; gate: Promise<unknown>; reading: number }
  /** What it does beside that; to be replaced. */
  etcd: Pick<Etcd, 'txn' | 'get'>
  watches: WatchListener[]
  /** What was asked of it at the start. */
  first: Parameters<Etcd['txn']>[]
  replica: Replica
  change<T>(rule: (tx: Db) => T): Promise<unknown>
  all(query: ReturnType<typeof sql>): Record<string, unknown>[]
  /** Of the parents, in the order of their ids. */
  names(): unknown[]
}

/** Node n1, a member that has everything up to `reached`. `store` changes its store before it starts; `rows` is what etcd has then. */
export async function openModelled(
  t: Scope,
  reached = 1,
  store?: (tx: Db) => void,
  rows: KeyValue[] = [],
): Promise<Modelled> {
  const model = { rows, revision: 10, gate: Promise.resolve() as Promise<unknown>, reading: 0 }
  const watches: WatchListener[] = []
  const first: Modelled['first'] = []
  let starting = true
  const modelled: Modelled['etcd'] = {
    txn: async () => ({ succeeded: true, revision: ++model.revision }),
    get: async () => undefined,
  }
  const etcd = {
    watch(_prefix: string, _from: number, listener: WatchListener) {
      watches.push(listener)
      return () => {}
    },
    async range(prefix: string) {
      const kvs = model.rows.filter(({ key }) => key.startsWith(prefix))
      const answer = { kvs, more: false, revision: model.revision }
      model.reading++
      await model.gate
      return answer
    },
    // Of a change that was under way when the agent ended there is nothing, unless the test says so.
    async txn(...given: Parameters<Etcd['txn']>) {
      if (!starting) return modelled.txn(...given)
      first.push(given)
      return { succeeded: false, revision: model.revision }
    },
    get: (...given: Parameters<Etcd['get']>) => modelled.get(...given),
  } as unknown as Etcd
  const told = () => {
    throw new TypeError('not understood')
  }
  let replica: Replica | undefined
  const plugin = (folder: string) => pathToFileURL(join(import.meta.dirname, folder, 'index.js')).href
  const cluster = defineArea(plugin('..'), {
    name: 'cluster',
    prefixes: ['/cluster'],
    routes() {},
    replicator(context) {
      replica = openReplica(context, { writable: () => true, cutOff() {}, told, reloaded() {} })
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
  if (replica === undefined) throw new TypeError('no replica')
  const opened = replica
  agent.store.write.run(
    sql`insert into cluster_self (id, mode, node, cluster, address, peer_port, initial_cluster, revision, shares)
      values (1, 'member', 'n1', 'c', '127.0.0.1', 1, '', ${reached}, ${opened.shares})`,
  )
  store?.(agent.store.write)
  opened.start(etcd)
  starting = false
  t.teardown(() => opened.stop())
  const all = (query: ReturnType<typeof sql>) => agent.store.read.all<Record<string, unknown>>(query)
  return {
    model,
    etcd: modelled,
    watches,
    first,
    replica: opened,
    change: (rule) =>
      agent.pipeline.mutate('trial', system('test'), async (tx) => ({ result: await rule(tx), touch: [], events: [] })),
    all,
    names: () => all(sql`select * from trial_parents order by id`).map(({ name }) => name),
  }
}

/** The first stream of the watch. */
export const watching = ({ watches }: Modelled): Promise<WatchListener> => until(() => watches[0], 'it watches')
