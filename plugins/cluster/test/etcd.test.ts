import '../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import type { WatchEvent } from '../etcd/client.ts'
import { absent, allUntil, type Compare, present, put, remove, removeAll, unchanged } from '../etcd/words.ts'
import { startBare } from './bare.ts'
import { until } from './node.ts'

requireRoot(t)

t.test('etcd understands what the words say', async (t) => {
  const { etcd } = await startBare(t)
  const holds = async (compare: Compare) => (await etcd.txn([compare], [])).succeeded
  const set = async (key: string, value: string) => (await etcd.txn([], [put(key, value)])).revision

  await t.test('compares', async (t) => {
    t.ok(await holds(absent('/a')))
    t.notOk(await holds(present('/a')))
    t.ok(await holds(unchanged('/a', 0)))
    const first = await set('/a', '1')
    t.notOk(await holds(absent('/a')))
    t.ok(await holds(present('/a')))
    t.ok(await holds(unchanged('/a', first)))
    const second = await set('/a', '2')
    t.notOk(await holds(unchanged('/a', first)))
    t.notOk(await holds(unchanged('/a', 0)))
    t.ok(await holds(unchanged('/a', second)))
    await etcd.txn([], [remove('/a')])
    t.ok(await holds(absent('/a')))
    t.ok(await holds(unchanged('/a', 0)))
  })

  await t.test('a compare of all that begins alike', async (t) => {
    t.ok(await holds(allUntil('/b/', 0)), 'none')
    const first = await set('/b/1', '')
    const second = await set('/b/2', '')
    await set('/b0', 'is none of them')
    t.ok(await holds(allUntil('/b/', second)))
    t.notOk(await holds(allUntil('/b/', first)))
  })

  await t.test('changes are made all or none', async (t) => {
    t.notOk((await etcd.txn([present('/c/0')], [put('/c/1', 'x')])).succeeded)
    t.equal(await etcd.get('/c/1'), undefined)
    await etcd.txn([absent('/c/0')], [put('/c/1', 'ü'), put('/c/2', ''), put('/c0', 'beside')])
    t.same(
      (await etcd.range('/c/')).kvs.map(({ key, value }) => [key, value]),
      [
        ['/c/1', 'ü'],
        ['/c/2', ''],
      ],
    )
    await etcd.txn([], [removeAll('/c/')])
    t.same((await etcd.range('/c/')).kvs, [])
    t.equal((await etcd.get('/c0'))?.value, 'beside')
  })

  await t.test('pages at one revision', async (t) => {
    const at = await set('/d/1', 'old')
    await set('/d/2', 'later')
    t.same(
      (await etcd.range('/d/', { revision: at })).kvs.map(({ value }) => value),
      ['old'],
    )
    const page = await etcd.range('/d/', { limit: 1 })
    t.ok(page.more)
    t.equal((await etcd.range('/d/', { from: `${page.kvs[0]?.key}\0` })).kvs[0]?.value, 'later')
    t.equal((await etcd.get('/d/2', { local: true }))?.value, 'later')
  })

  await t.test('a key on a lease goes with it', async (t) => {
    await etcd.txn([], [put('/e', 'x', await etcd.grant(1))])
    const gone = etcd.grant(60)
    await etcd.txn([], [put('/e2', 'x', await gone)])
    const { beat, stop } = etcd.keepAlive(await gone, () => t.fail('it is there'))
    beat()
    await until(async () => (await etcd.get('/e')) === undefined, 'the end of the lease')
    t.ok(await etcd.get('/e2'))
    stop()
    await etcd.revoke(await gone)
    t.equal(await etcd.get('/e2'), undefined)
    let lost = 0
    etcd.keepAlive(await gone, () => lost++).beat()
    await until(() => lost, 'that there is no such lease is told')
  })

  await t.test('the watch tells whole revisions in their order, large ones too, and what was forgotten', async (t) => {
    const since = await set('/f', '')
    const told: WatchEvent[][] = []
    const stop = etcd.watch('/g/', since + 1, {
      events: (events) => void told.push(events),
      end: () => t.fail('it ended'),
    })
    const long = 'x'.repeat(100_000)
    const large = await etcd.txn(
      [],
      Array.from({ length: 60 }, (_, n) => put(`/g/${n}`, long)),
      30_000,
    )
    const small = await etcd.txn([], [remove('/g/1')])
    await until(() => told.length >= 2, 'both')
    t.equal(told[0]?.length, 60)
    t.ok(told[0]?.every(({ revision, value }) => revision === large.revision && value === long))
    t.same(told[1], [{ key: '/g/1', value: undefined, revision: small.revision }])
    stop()
    await etcd.compact(small.revision)
    const end = await new Promise((resolve) => etcd.watch('/g/', since, { events() {}, end: resolve }))
    t.match(end, { compacted: true })
  })

  await t.test('to who is far behind it tells no later revision than that of the last event', async (t) => {
    const since = (await etcd.status()).header.revision
    for (let n = 0; n < 30; n++) await Promise.all(Array.from({ length: 50 }, () => set('/i/x', String(n))))
    const told: { last: number; revision: number }[] = []
    const stop = etcd.watch('/i/', Number(since) + 1, {
      events: (events, revision) => void told.push({ last: events.at(-1)?.revision ?? revision, revision }),
      end: () => t.fail('it ended'),
    })
    await until(() => told.at(-1)?.revision === Number(since) + 1500, 'all')
    stop()
    t.ok(told.length > 1)
    t.ok(told.every(({ last, revision }) => last === revision))
  })

  await t.test('a transaction of as many keys as are allowed', async (t) => {
    const keys = Array.from({ length: 19_999 }, (_, n) => `/h/${n}`)
    const { succeeded } = await etcd.txn(
      keys.map(absent),
      keys.map((key) => put(key, 'y'.repeat(100))),
      30_000,
    )
    t.ok(succeeded)
  })
})

t.test('a full database takes changes again after upkeep', async (t) => {
  const { openSpace } = await import('../etcd/space.ts')
  const quota = 16 << 20
  const { etcd } = await startBare(t, { quota })
  const space = openSpace(etcd, (work) => work(), quota)
  const value = 'z'.repeat(1 << 20)
  let refused = ''
  for (let n = 0; n < 100 && refused === ''; n++) {
    await etcd.txn([], [put('/a', value)], 30_000).catch((error: Error) => {
      refused = error.message
    })
  }
  t.match(refused, 'space exceeded')
  // What is to be forgotten must be older than what is kept: nothing is, so all but the last is forgotten here.
  const { header } = await etcd.status()
  await etcd.compact(Number(header.revision))
  for (let n = 0; n < 3; n++) await space.look(await etcd.status())
  t.ok((await etcd.txn([], [put('/a', 'small')])).succeeded)
  t.same(await etcd.alarms(), [])
})
