/** Overlays as machines on both sides see them; the far sides are VXLAN devices of iproute2. */
import t from 'tap'
import { tap } from '../../../test/frames.ts'
import { requireRoot } from '../../../test/netns.ts'
import { NETWORKS, site } from './site.ts'

requireRoot(t)

/** UDP to 4789 behind an Ethernet and an IPv4 header without options. */
const isTunnelled = (frame: Buffer) =>
  frame.readUInt16BE(12) === 0x0800 && frame.length > 38 && frame.readUInt16BE(36) === 4789

t.test(
  'vxlan-04 vxlan-08 vxlan-10 vxlan-11 a peer without MAC: what is behind it is learned, and forgotten with it',
  async (t) => {
    const node = await site(t)
    const far = node.remote(11)
    far.tunnel(100, { address: '10.7.0.11/24', mac: '02:00:00:00:00:11' })
    const near = node.guest('a', { addresses: ['10.7.0.1/24'] })
    await node.guarded(near)
    await node.overlay(100, { subnet: '10.7.0.0/24' })
    t.same(node.kernel().devices, ['vx100 100 4789 192.0.2.1 mtu 1450 br-work isolated'])
    t.notOk(near.pings('10.7.0.11'), 'nobody is there yet')
    await node.ok('POST', `${NETWORKS}/100/peers`, { host: 'far', vtep_ip: far.vtep })
    t.same(node.kernel().fdb, [`vx100 00:00:00:00:00:00 dst ${far.vtep}`])
    t.ok(near.reaches('10.7.0.11'), 'ARP gets there, and the answer back')
    t.ok(far.reaches('10.7.0.1'))
    const flood = { mac: '00:00:00:00:00:00', vni: 100, vtep_ip: far.vtep }
    t.same(await node.fdb(), [flood, { mac: '02:00:00:00:00:11', vni: 100, vtep_ip: far.vtep }])

    await node.ok('POST', `${NETWORKS}/100/peers`, { host: 'same', vtep_ip: far.vtep })
    await node.ok('DELETE', `${NETWORKS}/100/peers/far`)
    t.ok(near.pings('10.7.0.11'), 'another peer has the VTEP still')
    await node.ok('DELETE', `${NETWORKS}/100/peers/same`)
    t.same(await node.fdb(), [], 'no trace of it')
    t.notOk(near.pings('10.7.0.11'))
    t.notOk(far.pings('10.7.0.1'))
    t.same(await node.fdb(), [], 'nor does it come back by sending')
    await node.ok('DELETE', `${NETWORKS}/100`)
    t.same(node.kernel(), { devices: [], fdb: [], vteps: [] })
    t.notMatch(node.ns.run('nft', 'list', 'chain', 'inet', 'stratum', 'vxlan_input'), /4789/)
  },
)

t.test('vxlan-09 a peer with MAC: unicast goes there and nowhere else, and ARP finds it', async (t) => {
  const node = await site(t)
  const [one, two] = [node.remote(11), node.remote(12)]
  const mac = '02:00:00:00:00:11'
  one.tunnel(100, { address: '10.7.0.11/24', mac })
  two.tunnel(100, { address: '10.7.0.12/24' })
  const near = node.guest('a', { addresses: ['10.7.0.1/24'] })
  await node.guarded(near)
  await node.overlay(100, {}, { vtep: one.vtep, mac }, two)
  t.same(node.kernel().fdb, [
    `vx100 00:00:00:00:00:00 dst ${one.vtep}`,
    `vx100 00:00:00:00:00:00 dst ${two.vtep}`,
    `vx100 ${mac} dst ${one.vtep}`,
  ])
  t.ok(near.reaches('10.7.0.11'), 'asked for by ARP')
  t.ok(near.reaches('10.7.0.12'))

  // What is learned is gone, and ARP is not needed: the first frame is the one that counts.
  await node.ok('DELETE', `${NETWORKS}/100`)
  await node.overlay(100, {}, { vtep: one.vtep, mac }, two)
  near.ns.run('sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1')
  near.ns.run('ip', 'neighbour', 'replace', '10.7.0.11', 'lladdr', mac, 'dev', 'eth0', 'nud', 'permanent')
  two.ns.run('ip', 'link', 'set', 'vx100', 'down')
  const other = tap(t, two.ns, 'up0')
  t.ok(near.pings('10.7.0.11'))
  t.same(other.seen().filter(isTunnelled), [], 'not flooded')
  near.pings('10.7.0.99')
  t.ok(other.seen().some(isTunnelled), 'control: what is for many gets to the other peer')
})

t.test('vxlan-08 vxlan-10 VTEPs of IPv6', async (t) => {
  const node = await site(t, 6)
  const far = node.remote(11)
  const stranger = node.remote(66)
  far.tunnel(7, { address: '10.7.0.11/24' })
  stranger.tunnel(7, { address: '10.7.0.66/24' })
  const near = node.guest('a', { addresses: ['10.7.0.1/24'] })
  await node.guarded(near)
  await node.overlay(7, {}, far)
  t.same(node.kernel(), {
    devices: ['vx7 7 4789 2001:db8::1 mtu 1430 br-work isolated'],
    fdb: [`vx7 00:00:00:00:00:00 dst ${far.vtep}`],
    vteps: [far.vtep],
  })
  t.ok(near.reaches('10.7.0.11'))
  t.notOk(stranger.pings('10.7.0.1'), 'who is no peer')
  const refused = await node.agent.call('POST', `${NETWORKS}/7/peers`, { host: 'four', vtep_ip: '192.0.2.9' })
  t.equal(refused.status, 409)
  t.match(refused.body.error, /own VTEP is 2001:db8::1; set vxlan_local_ip/)
  await node.ok('DELETE', `${NETWORKS}/7/peers/${far.vtep}`)
  t.notOk(near.pings('10.7.0.11'))
  await node.ok('DELETE', `${NETWORKS}/7`)
  t.same(node.kernel(), { devices: [], fdb: [], vteps: [] })
})
