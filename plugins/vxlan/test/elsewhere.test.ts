/** Peers that other members of a cluster add and delete, on the real kernel and in memory. */
import { join } from 'node:path'
import t from 'tap'
import type { Elsewhere } from '../../../test/mate-agent.ts'
import { openMates } from '../../../test/mates.ts'
import { requireRoot } from '../../../test/netns.ts'
import { NETWORKS, site } from './site.ts'

const main = join(import.meta.dirname, '..', '..', '..', 'test', 'mate-agent.js')
const FLOOD = '00:00:00:00:00:00'

t.test('a peer that another member adds is in force here as soon as its overlay is', async (t) => {
  requireRoot(t)
  const node = await site(t, 4, {}, main)
  const far = node.remote(11)
  far.tunnel(100, { address: '10.7.0.11/24' })
  const near = node.guest('a', { addresses: ['10.7.0.1/24'] })
  await node.guarded(near)
  const elsewhere = (...changes: Elsewhere[]) => node.ok('POST', '/control/v1/mates', { changes })
  const peer = (vni: number, host: string, vtep: string) => ({ vni, host, mac: '', vtep })
  const add = (vni: number, host: string, vtep: string): Elsewhere => ({
    collection: 'vxlan_peers',
    after: peer(vni, host, vtep),
  })
  const nothing = { devices: [], fdb: [], vteps: [] }

  await elsewhere(
    add(100, 'far', far.vtep),
    add(100, 'here', '192.0.2.1'),
    add(100, 'six', '2001:db8::9'),
    add(200, 'far', far.vtep),
  )
  t.same(node.kernel(), nothing, 'no overlay of theirs is here')
  await node.ok('POST', NETWORKS, { vni: 100, subnet: '10.7.0.0/24' })
  t.same(node.kernel().fdb, [`vx100 ${FLOOD} dst ${far.vtep}`], 'neither the node itself nor what it cannot reach')
  t.same(node.kernel().vteps, [far.vtep])
  t.ok(near.reaches('10.7.0.11'))
  t.ok(far.reaches('10.7.0.1'))

  await node.agent.kill('SIGKILL')
  await node.agent.restart()
  t.same(node.kernel().fdb, [`vx100 ${FLOOD} dst ${far.vtep}`], 'after a crash')
  await elsewhere({ collection: 'vxlan_peers', before: { vni: 100, host: 'far' } })
  t.same([node.kernel().fdb, node.kernel().vteps], [[], []])
  t.notOk(near.pings('10.7.0.11'))
  await elsewhere(add(100, 'far', far.vtep))
  t.ok(near.reaches('10.7.0.11'))
  await node.ok('DELETE', `${NETWORKS}/100`)
  t.same(node.kernel(), nothing)
  await node.ok('POST', NETWORKS, { vni: 100, subnet: '10.7.0.0/24' })
  t.same(node.kernel().fdb, [`vx100 ${FLOOD} dst ${far.vtep}`], 'the others have kept it')
})

t.test('the overlay of one member goes without the peers that the others have in force', async (t) => {
  const only = ['node', 'vxlan', 'firewall', 'networks', 'ipam', 'l2']
  const { mates, held } = await openMates(t, ['n1', 'n2'], { only, config: { uplink: 'up0' } })
  const [one, two] = mates
  const address = { version: 4, index: 2, scope: 0, permanent: true, unusable: false, protocol: 0 } as const
  for (const [at, { plane }] of mates.entries()) {
    const links = async () => [{ index: 2, name: 'up0', mtu: 1500, up: true, running: true, group: 0 }]
    const addresses = async () => [{ ...address, cidr: `192.0.2.${at + 1}/24` }]
    Object.assign(plane, { devices: { ...plane.devices, links, addresses } })
  }
  const status = async (mate: (typeof mates)[number], method: string, path: string, body?: object) =>
    (await mate.call(method, `${NETWORKS}${path}`, body)).status
  const forwards = (mate: (typeof mates)[number]) =>
    [...mate.plane.entries.keys()].filter((key) => key.includes('/fdb'))
  for (const mate of mates) t.equal(await status(mate, 'POST', '', { vni: 7 }), 201)
  t.equal(await status(one, 'POST', '/7/peers', { host: 'far', vtep_ip: '192.0.2.9', mac: '02:00:00:00:00:01' }), 201)
  t.equal(await status(one, 'POST', '/7/peers', { host: 'two', vtep_ip: '192.0.2.2' }), 201)
  await two.pump()
  const before = forwards(two)
  t.ok(before.length > 0, 'control')
  t.equal(await status(two, 'POST', '/7/peers', { host: 'more', vtep_ip: '192.0.2.9', mac: '02:00:00:00:00:01' }), 409)
  t.equal(await status(one, 'DELETE', '/7'), 200)
  await two.pump()
  t.same([forwards(one), forwards(two), held('vxlan_peers').length], [[], before, 2])
  t.equal(await status(one, 'DELETE', '/7/peers/far'), 200, 'through a member that does not have the overlay')
  await two.pump()
  t.same(forwards(two), [])
  one.active = false
  t.equal(await status(one, 'POST', '', { vni: 7 }), 201)
  t.equal(await status(one, 'DELETE', '/7'), 200)
  t.same(one.rows('vxlan_peers'), [], 'outside of a cluster they go with it')
})
