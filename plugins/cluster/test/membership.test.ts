/** Judgements about who may come, over an etcd that only answers. */
import t from 'tap'
import type { Etcd } from '../etcd/client.ts'
import type { Member } from '../etcd/words.ts'
import { memberKey } from '../keys.ts'
import { renew } from '../membership.ts'
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
