/** The look at how a cluster stands, over an etcd that answers, is silent and is slow as it is told. */
import { join } from 'node:path'
import t from 'tap'
import { openStore } from '../../../core/state/store.ts'
import { scratch } from '../../../test/build.ts'
import type { EngineContext } from '../engine.ts'
import { type Etcd, EtcdError } from '../etcd/client.ts'
import type { Self } from '../tables.ts'
import { openWatching } from '../watching.ts'
import { until } from './node.ts'

const me: Self = {
  id: 1,
  mode: 'member',
  node: 'n1',
  cluster: 'c',
  address: '192.0.2.1',
  peerPort: 1,
  initialCluster: '',
  revision: 1,
  shares: '',
  hadOthers: false,
  newcomersUntil: '',
}
const POLL_MS = 10

/** `answer` says whether a look, counted from 0, is answered. */
async function openLooks(
  t: import('tap').Test,
  answer: (look: number) => Promise<boolean>,
  upkeep: () => Promise<void>,
) {
  const store = openStore(scratch(t))
  t.teardown(() => store.close())
  store.migrate('cluster', join(import.meta.dirname, '..'))
  /** `cancelled`: at which looks what waits was ended. */
  const counts = { looks: 0, cancelled: [] as number[], warned: 0 }
  const member = { ID: '1', name: 'n1', peerURLs: ['https://192.0.2.1:1'], isLearner: false }
  const etcd = {
    async status() {
      if (!(await answer(counts.looks++))) throw new EtcdError(4, 'Deadline exceeded')
      return { header: { member_id: '1', revision: '1' }, leader: '1', errors: [], isLearner: false }
    },
    members: async () => [member],
    range: async () => ({ kvs: [], more: false, revision: 1 }),
    get: async () => undefined,
    grant: () => new Promise(() => {}),
    cancelWaiting: () => void counts.cancelled.push(counts.looks),
  } as unknown as Etcd
  const log = { debug() {}, error() {}, warn: () => void counts.warned++ }
  const context = { log, read: store.read, now: () => new Date(), mutate: async () => ({}) } as unknown as EngineContext
  const watching = openWatching(context, { pollMs: POLL_MS } as never, { alone() {}, upkeep })
  await watching.start(etcd, me)
  t.teardown(() => watching.stop())
  return { watching, counts }
}

t.test('an etcd that is silent once is asked again before what waits for it is ended', async (t) => {
  const { watching, counts } = await openLooks(
    t,
    async (look) => look !== 1,
    async () => {},
  )
  t.equal(watching.standing()?.writable, true)
  await until(() => counts.looks > 3, 'it goes on')
  t.same(counts.cancelled, [])
  t.equal(watching.standing()?.writable, true)
})

t.test('an etcd that is silent twice has no majority, and what waits for it is ended', async (t) => {
  const { watching, counts } = await openLooks(
    t,
    async (look) => look === 0,
    async () => {},
  )
  await until(() => watching.standing()?.writable === false, 'it knows')
  await until(() => counts.looks > 5, 'it goes on')
  t.same(counts.cancelled, [3])
})

t.test('a look sees what was there when it was asked for, not what one that runs has seen', async (t) => {
  let open = () => {}
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const { watching, counts } = await openLooks(
    t,
    async (look) => {
      if (look === 1) await gate
      return true
    },
    async () => {},
  )
  await until(() => counts.looks === 2, 'one runs')
  const looks = [watching.look(), watching.look()]
  open()
  await Promise.all(looks)
  t.ok(counts.looks >= 3, 'another has begun since')
})

t.test('upkeep that fails is soon tried again, and one runs at a time', async (t) => {
  let [runs, running, most] = [0, 0, 0]
  const { counts } = await openLooks(
    t,
    async () => true,
    async () => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setTimeout(resolve, 5 * POLL_MS))
      running--
      if (++runs === 1) throw new Error('its record was changed')
    },
  )
  await until(() => runs === 2, 'it was tried again')
  t.equal(counts.warned, 1)
  const { looks } = counts
  await until(() => counts.looks > looks + 10, 'it goes on')
  t.equal(runs, 2, 'after it succeeded it rests')
  t.equal(most, 1)
})
