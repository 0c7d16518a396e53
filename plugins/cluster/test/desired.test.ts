/** Whom the ports of a cluster are open to. */
import t from 'tap'
import { buildArea } from '../../../test/build.ts'
import { desired } from '../desired.ts'
import { members, self } from '../tables.ts'

const only = ['node', 'firewall', 'cluster']

t.test('D71 members are let in by both ports, each once, and nobody else is', async (t) => {
  const { agent } = await buildArea(t, 'cluster', { only })
  const { store, config } = agent
  const render = typeof desired === 'function' ? desired(new Set(['element'])) : desired
  const keys = () => [...render.all(store.read, config)].map(({ key }) => key).sort()
  const guard = () =>
    [...render.all(store.read, config)].flatMap((entry) => (entry.kind === 'chain' ? entry.rules : []))
  const of = (...addresses: string[]) =>
    addresses
      .flatMap((address) => {
        const family = address.includes(':') ? 6 : 4
        const open = [7073, 7074].map((port) => `firewall/firewall_open${family}/tcp . ${port} . ${address}`)
        return [`cluster/cluster_members${family}/${address}`, ...open]
      })
      .concat('cluster/cluster_input')
      .sort()
  t.same(keys(), [], 'in no cluster there is nothing to guard')

  const initialCluster = 'n1=https://192.0.2.1:7074,n2=https://192.0.2.2:7074,n3=https://[2001:db8::3]:7074'
  const me = { id: 1, mode: 'joining', node: 'n2', cluster: 'c', address: '192.0.2.2', peerPort: 7074 } as const
  store.write
    .insert(self)
    .values({ ...me, initialCluster })
    .run()
  t.same(keys(), of('192.0.2.1', '2001:db8::3'), 'who enters goes by whom it was told of')
  store.write
    .insert(members)
    .values([
      { node: 'n1', address: '192.0.2.1', voter: true },
      { node: 'n4', address: '192.0.2.4', voter: true },
    ])
    .run()
  t.same(keys(), of('192.0.2.1', '2001:db8::3', '192.0.2.4'), 'who was told of and seen is there once')
  store.write.update(self).set({ mode: 'member' }).run()
  t.same(keys(), of('192.0.2.1', '192.0.2.4'), 'a member goes by who is one now')
  t.same([...render.one(store.read, 'members', config)].map(({ key }) => key).sort(), keys())
  t.same([...render.one(store.read, 'x', config)], [])

  const peers = ['4', '6'].map((family) => new RegExp(`^tcp dport 7074 .* != @cluster_members${family} drop$`))
  const door = ['4', '6'].map((family) => new RegExp(`^tcp dport 7073 .* != @cluster_members${family} drop$`))
  t.match(guard(), [...peers, ...door])
  store.write.update(self).set({ newcomersUntil: '2030-01-01T00:00:00.000Z' }).run()
  t.match(guard(), peers)
  t.equal(guard().length, 2, 'while there is a code anybody may come with it')
  const without = typeof desired === 'function' ? desired(new Set()) : desired
  t.same([...without.all(store.read, config)], [], 'without nft nothing can be told to it')
})
