import t from 'tap'
import type { Collection, Row, RowChange } from '../../../core/replication.ts'
import { system } from '../../../core/state/events.ts'
import { atOnce } from '../../../dataplane/slices.ts'
import { fc } from '../../../test/property.ts'
import { type Etcd, EtcdError } from '../etcd/client.ts'
import { absent, allUntil, type Compare, present, unchanged } from '../etcd/words.ts'
import { childPrefix, decode, encode, parentKey, partsOf, readRowKey, rowKey, uniqueKeys } from '../keys.ts'
import { carryOut, endDoubt } from '../replicate/outcome.ts'
import { transactionOf } from '../replicate/transaction.ts'

const pools: Collection = {
  name: 'pools',
  key: ['id'],
  columns: ['id', 'name', 'tenant'],
  unique: [['name']],
  parents: [{ collection: 'tenants', columns: ['tenant'] }],
  serial: ({ tenant }) => (tenant ? [`tenant/${tenant}`] : []),
}
const tenants: Collection = {
  name: 'tenants',
  key: ['id'],
  columns: ['id'],
  serial: ({ id }) => [`tenant/${id}`],
  named: ({ id }) => [`tenant/${id}`],
}
const addresses: Collection = {
  name: 'addresses',
  key: ['pool', 'ip'],
  columns: ['pool', 'ip'],
  parents: [{ collection: 'pools', columns: ['pool'] }],
}
const notes: Collection = {
  name: 'notes',
  key: ['pool', 'ip', 'n'],
  columns: ['pool', 'ip', 'n'],
  parents: [{ collection: 'addresses', columns: ['pool', 'ip'] }],
}
const collections = new Map([pools, addresses, notes].map((one) => [one.name, one]))

function build(changes: RowChange[], revisions: Record<string, number> = {}) {
  const held = { node: 'n1', applied: 50, revisionOf: (key: string) => revisions[key] ?? 0, collections }
  const { compares, ops, kept, ...rest } = atOnce(
    transactionOf(held, { area: 'x', origin: system('t'), changes }, 'rid'),
  )
  const text = ops.map((op) =>
    'request_put' in op
      ? `${op.request_put.key}=${op.request_put.value}`
      : `-${op.request_delete_range.key}${op.request_delete_range.range_end ? '*' : ''}`,
  )
  const isOwn = (compare: Compare) => compare.key.toString() === '/change/n1'
  return {
    ...rest,
    compares: compares.filter((compare) => !isOwn(compare)),
    own: compares.filter(isOwn),
    kept: kept.filter((key) => key !== '/change/n1'),
    marks: kept.filter((key) => key === '/change/n1'),
    ops: text.filter((line) => !line.startsWith('/change/n1=')),
    all: text,
  }
}
const pool = (id: number, name: string, tenant: string | null = null): Row => ({ id, name, tenant })

t.test('a new row', async (t) => {
  const { compares, ops, all, kept } = build([{ collection: pools, after: pool(7, 'a', 't1') }], {
    '/s/tenant%2Ft1': 9,
  })
  t.same(compares, [
    absent('/r/pools/=7'),
    present('/r/tenants/t1'),
    absent('/u/pools/0/a'),
    unchanged('/s/tenant%2Ft1', 9),
  ])
  t.same(ops, ['/r/pools/=7={"id":7,"name":"a","tenant":"t1"}', '/u/pools/0/a=/r/pools/=7', '/s/tenant%2Ft1=rid'])
  t.match(all.at(-1), /^\/change\/n1=\{"rid":"rid","node":"n1","area":"x"/)
  t.same(kept, ['/r/pools/=7', '/s/tenant%2Ft1'])
})

t.test('a changed row gives up what nobody else may have', async (t) => {
  const change = { collection: pools, before: pool(7, 'a'), after: pool(7, 'b') }
  const { compares, ops } = build([change], { '/r/pools/=7': 12 })
  t.same(compares, [unchanged('/r/pools/=7', 12), absent('/u/pools/0/b')])
  t.same(ops.slice(1), ['/u/pools/0/b=/r/pools/=7', '-/u/pools/0/a'])
  t.same(build([{ ...change, after: pool(7, 'a', 't1') }]).compares[1], present('/r/tenants/t1'))
})

t.test('what a serial is named after takes it along', async (t) => {
  const row = { id: 't1' }
  const { compares, ops, kept, gone } = build(
    [
      { collection: pools, before: pool(7, 'a', 't1') },
      { collection: tenants, before: row },
    ],
    { '/s/tenant%2Ft1': 9 },
  )
  t.same(compares.at(-1), unchanged('/s/tenant%2Ft1', 9))
  t.equal(ops.at(-1), '-/s/tenant%2Ft1')
  t.same([kept, gone.at(-1)], [[], '/s/tenant%2Ft1'])
  t.equal(build([{ collection: tenants, after: row }]).ops.at(-1), '/s/tenant%2Ft1=rid')
})

t.test('two rows exchange what nobody else may have', async (t) => {
  const { compares, ops } = build([
    { collection: pools, before: pool(1, 'a'), after: pool(1, 'b') },
    { collection: pools, before: pool(2, 'b'), after: pool(2, 'a') },
  ])
  t.same(compares, [unchanged('/r/pools/=1', 0), unchanged('/r/pools/=2', 0)])
  t.same(ops.slice(2), ['/u/pools/0/b=/r/pools/=1', '/u/pools/0/a=/r/pools/=2'])
})

t.test('a row that goes takes along what goes with it, unless there is something unknown', async (t) => {
  const { compares, ops, gone, gonePrefixes } = build([{ collection: pools, before: pool(1, 'a') }])
  t.same(compares, [unchanged('/r/pools/=1', 0), allUntil('/r/addresses/=1/', 50), allUntil('/r/notes/=1/', 50)])
  t.same(ops, ['-/r/pools/=1', '-/r/addresses/=1/*', '-/r/notes/=1/*', '-/u/pools/0/a'])
  t.same([gone, gonePrefixes], [['/r/pools/=1'], ['/r/addresses/=1/', '/r/notes/=1/']])
})

t.test('what rests on a row of the same transaction needs no other proof', async (t) => {
  const { compares } = build([
    { collection: pools, after: pool(1, 'a') },
    { collection: addresses, after: { pool: 1, ip: '10.0.0.1' } },
  ])
  t.same(compares, [absent('/r/pools/=1'), absent('/r/addresses/=1/10.0.0.1'), absent('/u/pools/0/a')])
})

t.test('what rests on a row of others rests on the one that this node has', async (t) => {
  const address = { collection: addresses, after: { pool: 1, ip: '10.0.0.1' } }
  t.same(build([address], { '/r/pools/=1': 12 }).compares, [
    absent('/r/addresses/=1/10.0.0.1'),
    unchanged('/r/pools/=1', 12),
  ])
  t.same(build([address]).compares[1], present('/r/pools/=1'), 'one that it does not know')
  const owned = { collection: pools, after: pool(7, 'a', 't1') }
  t.same(build([owned], { '/r/tenants/t1': 5 }).compares[1], present('/r/tenants/t1'), 'that area is off')
})

t.test('what is too much for one transaction is refused before anything happens', async (t) => {
  const many = Array.from({ length: 20_001 }, (_, ip) => ({
    collection: addresses,
    after: { pool: 1, ip: String(ip) },
  }))
  t.throws(() => build(many), { status: 409, code: 'TOO_LARGE' } as object as Error)
  const large = [{ collection: addresses, after: { pool: 1, ip: 'x'.repeat(5 << 20) } }]
  t.throws(() => build(large), { status: 409 } as object as Error)
})

t.test('keys tell all values apart and lead back to them', async (t) => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 })
  const value = fc.oneof(
    text,
    fc.constantFrom('', '/', '=', '=1', '%2F', '..', '~'),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
    fc.constant(null),
  )
  const row = fc.record({ pool: value, ip: value })
  fc.assert(
    fc.property(row, row, (one, other) => {
      const [key, also] = [rowKey(addresses, one), rowKey(addresses, other)]
      const { collection, values } = readRowKey(key)
      const same = (a: unknown, b: unknown) => a === b
      return (
        /^[!-~]+$/.test(key) &&
        collection === 'addresses' &&
        same(values[0], one.pool) &&
        same(values[1], one.ip) &&
        (key === also) === (same(one.pool, other.pool) && same(one.ip, other.ip)) &&
        (key.startsWith(childPrefix('addresses', [other.pool])) || !same(one.pool, other.pool))
      )
    }),
    { numRuns: 300 },
  )
  fc.assert(
    fc.property(text, (name) => decode(encode(name)) === name && partsOf(`/m/${encode(name)}`, '/m/')[0] === name),
  )
  t.same(uniqueKeys(pools, pool(1, '')), [], 'no value is shared')
  t.equal(parentKey(pool(1, 'a'), { collection: 'tenants', columns: ['tenant'] }), undefined)
})

t.test('each transaction of a node follows the one before', async (t) => {
  const { own, marks } = build([{ collection: pools, after: pool(7, 'a') }], { '/change/n1': 40 })
  t.same(own, [unchanged('/change/n1', 40)])
  t.same(marks, ['/change/n1'])
})

/** An etcd that answers neither the transaction nor, where it is undefined, the question about it. */
function lossy(code: number, fence?: { succeeded: boolean }, kept?: string) {
  const asked: unknown[] = []
  const etcd = {
    async txn(compares: unknown, ops: unknown[]) {
      asked.push(compares)
      if (ops.length === 0) throw new EtcdError(code, 'lost')
      if (fence === undefined) throw new EtcdError(4, 'deadline')
      return { ...fence, revision: 80 }
    },
    get: async () => kept && { key: '', createRevision: 1, modRevision: 77, value: JSON.stringify({ rid: kept }) },
  } as unknown as Etcd
  return { etcd, asked }
}

t.test('the outcome of a transaction whose answer was lost is known, or a doubt until it is', async (t) => {
  let doubts = 0
  const doubt = () => void doubts++
  const outcome = ({ etcd }: ReturnType<typeof lossy>, writable = true) => {
    const fence = { node: 'n1', changed: 40, rid: 'mine' }
    return carryOut(etcd, { compares: [], ops: [] }, fence, { writable: () => writable, doubt }).catch(
      (error: { status: number; message: string }) => `${error.status} ${error.message}`,
    )
  }
  for (const code of [1, 2, 4, 13, 14]) {
    const made = lossy(code, { succeeded: false }, 'mine')
    t.same(await outcome(made), { succeeded: true, revision: 77 })
    t.same(made.asked[1], [unchanged('/change/n1', 40)], 'the question compares what the transaction did')
    const later = { succeeded: false, revision: 80 }
    t.same(await outcome(lossy(code, { succeeded: false }, 'another')), later, 'it was outrun')
    t.same(await outcome(lossy(code, { succeeded: false })), later, 'the key is gone')
    t.match(await outcome(lossy(code, { succeeded: true })), /^503 cluster service not available.* never will be/)
  }
  t.match(await outcome(lossy(8, { succeeded: false }, 'mine')), /^503 .*refused/, 'etcd has refused it: nobody asks')
  t.equal(doubts, 0)
  t.match(await outcome(lossy(4)), /^503 .*whether the change was made/)
  const cut = lossy(1, { succeeded: true })
  t.match(await outcome(cut, false), /^503 .*whether the change was made/)
  t.equal(cut.asked.length, 1, 'nobody could tell')
  t.equal(doubts, 2)
})

t.test('a doubt ends as soon as a majority answers, or by the next change of the node', async (t) => {
  const { signal } = new AbortController()
  const fence = { node: 'n1', changed: 40 }
  let tries = 0
  const [silent, answers] = [lossy(4), lossy(4, { succeeded: false })]
  const back = {
    ...silent.etcd,
    txn: (...given: Parameters<Etcd['txn']>) => (++tries < 3 ? silent : answers).etcd.txn(...given),
  }
  await endDoubt(back, fence, { writable: () => true, changed: () => 40 }, signal)
  t.equal(tries, 3)
  await endDoubt(back, fence, { writable: () => true, changed: () => 41 }, signal)
  t.equal(tries, 3, 'it has ended already')
  let looks = 0
  await endDoubt(back, fence, { writable: () => ++looks > 2, changed: () => 40 }, signal)
  t.equal(tries, 4, 'it waits for a majority')
})
