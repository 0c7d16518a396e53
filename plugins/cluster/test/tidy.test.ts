/** What the leader forgets, over records in memory. */
import t from 'tap'
import { makeCode } from '../codes.ts'
import { put } from '../engine.ts'
import { changeKey, memberKey, trustKey } from '../keys.ts'
import type { Standing } from '../standing.ts'
import { type Tidied, tidy } from '../tidy.ts'
import { memoryRecords } from './records.ts'

const NOW = new Date('2026-01-01T12:00:00Z')
const minutesAgo = (minutes: number) => new Date(NOW.getTime() - minutes * 60_000).toISOString()

async function leader(standing: Partial<Standing> = {}) {
  const records = memoryRecords()
  const since = { n1: 600, n2: 600, late: 61, early: 59, gone: 61 }
  for (const [node, minutes] of Object.entries(since)) {
    const record = { address: '192.0.2.1', since: minutesAgo(minutes) }
    await records.transact([], [put(memberKey(node), JSON.stringify(record))])
  }
  const member = (id: string, voter: boolean) => ({
    id,
    address: '192.0.2.1',
    voter,
    online: voter,
    lastSeen: undefined,
  })
  const members = [member('n1', true), member('n2', true), member('late', false), member('early', false)]
  const expelled: string[] = []
  const parts = {
    engine: {
      records,
      standing: () => ({ cluster: 'c', writable: true, leader: 'n1', acts: true, members, ...standing }),
      expel: async (node: string) => void expelled.push(node),
    },
    context: { now: () => NOW, log: { warn() {}, debug() {} }, config: { int: () => 7073 } },
  } as unknown as Tidied
  return { parts, records, expelled }
}

t.test('D100 who was admitted and has not come within an hour is not expected any more', async (t) => {
  const { parts, expelled } = await leader()
  await tidy(parts)
  // Of the last there is only the record: etcd never took it, or has lost it already.
  t.same(expelled.sort(), ['gone', 'late'])
})

t.test('what is left of one that is no member is forgotten, and of members nothing', async (t) => {
  const { parts, records } = await leader()
  for (const node of ['n1', 'left', 'early']) {
    await records.transact([], [put(changeKey(node), '{}'), put(trustKey(node), '{}')])
  }
  await tidy(parts)
  const kept = await Promise.all(['/change/', '/t/'].map((prefix) => records.list(prefix)))
  const nodes = ['early', 'n1']
  t.same(
    kept
      .flat()
      .map(({ key }) => key)
      .sort(),
    [...nodes.map(changeKey), ...nodes.map(trustKey)],
  )
})

t.test('only who acts with a majority behind it forgets', async (t) => {
  for (const standing of [{ acts: false }, { writable: false }]) {
    const { parts, records, expelled } = await leader(standing)
    await makeCode(records, { kind: 'cli', label: 'root' }, { ttlSeconds: 60, now: new Date('2025-01-01T00:00:00Z') })
    const before = records.dump()
    await tidy(parts)
    t.same([expelled, records.dump()], [[], before])
  }
})
