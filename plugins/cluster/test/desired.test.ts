/** What a default deny must not keep out. */
import t from 'tap'
import { buildArea } from '../../../test/build.ts'
import { desired } from '../desired.ts'
import { members, self } from '../tables.ts'

const only = ['node', 'firewall', 'cluster']

t.test('D71 members that were seen, and those that were told of, are let in by both ports, each once', async (t) => {
  const { agent } = await buildArea(t, 'cluster', { only })
  const { store, config } = agent
  const render = typeof desired === 'function' ? desired(new Set(['element'])) : desired
  const elements = () => [...render.all(store.read, config)].map(({ key }) => key.replace(/^firewall\//, '')).sort()
  t.same(elements(), [], 'in no cluster there are none')

  store.write
    .insert(self)
    .values({
      id: 1,
      mode: 'joining',
      node: 'n2',
      cluster: 'c',
      address: '192.0.2.2',
      peerPort: 7074,
      initialCluster: 'n1=https://192.0.2.1:7074,n2=https://192.0.2.2:7074,n3=https://[2001:db8::3]:7074',
    })
    .run()
  const told = ['192.0.2.1', '2001:db8::3'].flatMap((address) => {
    const set = address.includes(':') ? 6 : 4
    return [7073, 7074].map((port) => new RegExp(`${set}/tcp \\. ${port} \\. ${address}`))
  })
  t.match(elements(), told)
  t.equal(elements().length, 4)

  const rows = [
    ['n1', '192.0.2.1'],
    ['n4', '192.0.2.4'],
  ].map(([node = '', address = '']) => ({ node, address, voter: true }))
  store.write.insert(members).values(rows).run()
  t.equal(elements().length, 6, 'who was told of and seen is there once')
  t.same(
    [...render.one(store.read, 'members', config)].map(({ key }) => key).sort(),
    [...render.all(store.read, config)].map(({ key }) => key).sort(),
  )
  t.same([...render.one(store.read, 'x', config)], [])
  const without = typeof desired === 'function' ? desired(new Set()) : desired
  t.same([...without.all(store.read, config)], [], 'without nft there is no default deny to spare them')
})
