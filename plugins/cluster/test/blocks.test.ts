import t from 'tap'
import type { Block } from '../../../core/gates/lockout.ts'
import { openBlocks } from '../blocks.ts'
import type { EngineContext } from '../engine.ts'
import type { Etcd, RangeOptions } from '../etcd/client.ts'

const until = new Date(Date.now() + 3_600_000).toISOString()
const block = (n: number): Block => ({ address: `10.0.${n >> 8}.${n & 255}`, until, failures: 10 })

t.test('all blocks of the others are taken over, and what they lifted while nobody listened is lifted', async (t) => {
  const held = new Map<string, string>()
  for (let n = 0; n < 1200; n++) held.set(`/b/${block(n).address}`, JSON.stringify(block(n)))
  let most = 0
  const etcd = {
    async range(prefix: string, { from = prefix, limit = 1e9 }: RangeOptions & { from?: string }) {
      const all = [...held].map(([key, value]) => ({ key, value })).sort((a, b) => (a.key < b.key ? -1 : 1))
      const kvs = all.filter(({ key }) => key >= from)
      most = Math.max(most, Math.min(kvs.length, limit))
      return { kvs: kvs.slice(0, limit), more: kvs.length > limit, revision: 1 }
    },
  } as unknown as Etcd
  const blocked = new Map<string, Block>()
  const lockout = {
    impose: (one: Block) => void blocked.set(one.address, one),
    lift: (address: string) => void blocked.delete(address),
    blocks: () => [...blocked.values()],
    onBlock: () => () => {},
    onUnblock: () => () => {},
  }
  const blocks = openBlocks({ lockout, now: () => new Date() } as unknown as EngineContext)
  blocks.start(etcd)
  await blocks.exchange()
  t.equal(blocked.size, 1200)
  t.ok(most <= 500, 'page by page')
  held.delete(`/b/${block(700).address}`)
  await blocks.exchange()
  t.equal(blocked.size, 1199)
  t.notOk(blocked.has(block(700).address))
})
