/** Judgements about who may come, over an etcd that only answers. */
import t from 'tap'
import { type Etcd, EtcdError } from '../etcd/client.ts'
import type { Member } from '../etcd/words.ts'
import { changeKey, memberKey } from '../keys.ts'
import { admit, alone, arrive, leave, renew } from '../membership.ts'
import { named } from '../standing.ts'
import { statusOf } from './node.ts'

const place = { self: 'n1', peerPort: 7074, now: () => new Date(0) }

t.test('a learner stays when the same name asks to come from another address', async (t) => {
  const asked: string[] = []
  const learner = { ID: '2', name: 'n2', isLearner: true, peerURLs: ['https://192.0.2.2:7074'] }
  const record = { key: memberKey('n2'), value: JSON.stringify({ address: '192.0.2.2', since: '' }), modRevision: 1 }
  const etcd: Partial<Etcd> = {
    grant: async () => '1',
    revoke: async () => {},
    txn: async () => ({ succeeded: true, revision: 1 }),
    status: async () => ({}) as never,
    members: async () => (asked.includes('removeMember') ? [] : [learner as Member]),
    range: async (prefix) => ({ kvs: prefix === '/m/' ? [record] : [], revision: 1 }) as never,
    get: async () => undefined,
    removeMember: async () => void asked.push('removeMember'),
    addLearner: async () => {
      asked.push('addLearner')
      return {} as never
    },
  }
  const come = (address: string) => statusOf(renew(etcd as Etcd, place, { node: 'n2', address, key: 'x' }))
  t.equal(await come('192.0.2.9'), 409)
  t.same(asked, [])
  t.equal(await come('192.0.2.2'), 'done')
  t.same(asked, ['removeMember', 'addLearner'], 'this one goes with what it has acknowledged')
})

t.test(
  'a member that calls itself by the name of another, or has no record, has an id by which it can be removed',
  (t) => {
    const at = (ID: string, name: string): Member => ({
      ID,
      name,
      peerURLs: [`https://192.0.2.${ID}:7074`],
      isLearner: false,
    })
    const records = new Map(['n1', 'n2', 'n3'].map((id, n) => [id, { address: `192.0.2.${n + 1}`, since: '' }]))
    const ids = (raft: Member[]) => named(raft, records).map(({ id, raft: { ID } }) => `${ID}=${id}`)
    t.same(ids([at('1', 'n1'), at('2', 'n2'), at('3', '')]).sort(), ['1=n1', '2=n2', '3=n3'], 'one has yet to run')
    t.same(ids([at('3', 'n1'), at('1', 'n1'), at('2', 'n2')]).sort(), ['1=n1', '2=n2', '3=n3'], 'the address tells')
    t.same(ids([at('1', 'n1'), at('7', 'n1'), at('8', '')]).sort(), ['1=n1', '7=7', '8=8'], 'nobody is hidden')
    t.end()
  },
)

/** What a transaction puts. */
const putIn = (ops: Parameters<Etcd['txn']>[1]): string[] =>
  ops.flatMap((op) => ('request_put' in op ? [`${op.request_put.key}=${op.request_put.value}`] : []))

t.test('a member whose record somebody else changes while it arrives is not noted, and says so', async (t) => {
  const put: string[] = []
  let succeeded = false
  const etcd: Partial<Etcd> = {
    get: async () => undefined,
    async txn(_compares, ops) {
      if (succeeded) put.push(...putIn(ops))
      return { succeeded, revision: 1 }
    },
  }
  const come = () => statusOf(arrive(etcd as Etcd, { node: 'n2', address: '192.0.2.2', key: 'x' }, new Date(0)))
  t.equal(await come(), 503)
  succeeded = true
  t.equal(await come(), 'done')
  t.match(put, [/^\/m\/n2=.*"joined":true/, '/meta/came=n2'])
})

for (const joined of [true, false]) {
  t.test(
    `who leaves after it ${joined ? 'has' : 'has not'} come is ${joined ? '' : 'not '}told to the others`,
    async (t) => {
      const put: string[] = []
      const record = { key: memberKey('n2'), value: JSON.stringify({ address: '192.0.2.2', since: '', joined }) }
      const etcd: Partial<Etcd> = {
        async txn(_compares, ops) {
          put.push(...putIn(ops))
          return { succeeded: true, revision: 1 }
        },
        status: async () => ({ header: { member_id: '2', revision: '1' }, leader: '1', errors: [] }) as never,
        members: async () => [],
        range: async (prefix) => ({ kvs: prefix === '/m/' ? [record] : [], revision: 1 }) as never,
        get: async () => undefined,
        removeMember: async () => {},
      }
      await leave(etcd as Etcd, { ...place, self: 'n2' })
      t.same(put, joined ? ['/meta/came=n2'] : [])
    },
  )
}

t.test('a member that leaves, and perhaps cannot, keeps the key of its last change', async (t) => {
  const removed: string[] = []
  const put: string[] = []
  const etcd: Partial<Etcd> = {
    async txn(_compares, ops) {
      put.push(...putIn(ops))
      for (const op of ops) if ('request_delete_range' in op) removed.push(op.request_delete_range.key.toString())
      return { succeeded: true, revision: 1 }
    },
    status: async () => ({ header: { member_id: '2', revision: '1' }, leader: '1', errors: [] }) as never,
    members: async () => [],
    range: async () => ({ kvs: [], revision: 1 }) as never,
    get: async () => undefined,
    removeMember: () => Promise.reject(new EtcdError(14, 'no leader')),
  }
  t.equal(await statusOf(leave(etcd as Etcd, { ...place, self: 'n2' })), 503)
  t.same(put, [])
  t.same(removed, ['/m/n2', '/live/n2'])
})

t.test('nothing counts that a former member of a name has sent, even if its removal was cut short', async (t) => {
  const put: string[] = []
  // etcd has removed it, and its record is there yet.
  const record = { key: memberKey('n2'), value: JSON.stringify({ address: '192.0.2.2', since: '' }) }
  const etcd: Partial<Etcd> = {
    grant: async () => '1',
    revoke: async () => {},
    async txn(_compares, ops) {
      put.push(...putIn(ops))
      return { succeeded: true, revision: 1 }
    },
    status: async () => ({}) as never,
    members: async () => [],
    range: async (prefix) => ({ kvs: prefix === '/m/' ? [record] : [], revision: 1 }) as never,
    get: async () => undefined,
    addLearner: async () => ({}) as never,
  }
  await admit(etcd as Etcd, place, 'n2', '192.0.2.2')
  t.match(put, ['/meta/lock=n1', /^\/m\/n2=/, `${changeKey('n2')}={"node":"n2"}`])
})

t.test('what a killed agent of this node was at is not waited for, and what another is at is', async (t) => {
  let held: string | undefined
  const etcd: Partial<Etcd> = {
    grant: async () => '1',
    revoke: async () => {
      held = undefined
    },
    get: async () => (held === undefined ? undefined : { key: '', value: held, createRevision: 1, modRevision: 1 }),
    async txn(compares, [op]) {
      const wantsNone = compares.some((one) => one.target === 'CREATE')
      if (wantsNone && held !== undefined) return { succeeded: false, revision: 1 }
      held = op && 'request_put' in op ? String(op.request_put.value) : undefined
      return { succeeded: true, revision: 1 }
    },
  }
  const work = (self: string) => statusOf(alone(etcd as Etcd, self, async () => {}, 0))
  for (const left of ['n1 0123456789abcdef', 'n1']) {
    held = left
    t.equal(await work('n1'), 'done', left)
    held = left
    t.equal(await work('n2'), 503)
  }
  await alone(etcd as Etcd, 'n1', async () =>
    t.equal(await work('n1'), 503, 'nor does one agent do two things at once'),
  )
})
