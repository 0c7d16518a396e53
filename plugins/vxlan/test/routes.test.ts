/** Overlays over REST, over a plane in memory. */

import t from 'tap'
import { ApiError } from '../../../core/errors.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { readMac, readSubnet, readVni, readVtep } from '../input.ts'
import { NETWORKS, vxlan } from './area.ts'

const PEER = { host: 'node2', vtep_ip: '192.0.2.2' }

t.test(
  'vxlan-01 vxlan-02 vxlan-04 vxlan-05 vxlan-06 vxlan-10 networks and peers are made, listed and deleted',
  async (t) => {
    const { call, events, planned } = await vxlan(t)
    const idle = planned()
    t.same((await call('GET', NETWORKS)).body, { vxlan_networks: [] })
    const made = await call('POST', NETWORKS, { vni: 100, subnet: '10.0.0.0/24' })
    t.same([made.status, made.body], [201, { status: 'created', vni: 100, subnet: '10.0.0.0/24' }])
    t.equal((await call('POST', NETWORKS, { vni: 100 })).status, 409)
    const peer = await call('POST', `${NETWORKS}/100/peers`, { ...PEER, mac: '02-00-00-00-00-0A' })
    t.same([peer.status, peer.body], [201, { status: 'added', vni: 100, host: 'node2' }])
    const shown = { host: 'node2', mac: '02:00:00:00:00:0a', vtep_ip: '192.0.2.2' }
    t.same((await call('GET', `${NETWORKS}/100/peers`)).body, { vni: 100, peers: [shown] })
    t.same((await call('GET', NETWORKS)).body, {
      vxlan_networks: [{ vni: 100, subnet: '10.0.0.0/24', peers: [shown] }],
    })
    t.same(planned(), [
      'firewall/firewall_open4/udp . 4789 . 192.0.2.2',
      'vxlan/fdb/vx100/00:00:00:00:00:00/192.0.2.2',
      'vxlan/fdb/vx100/02:00:00:00:00:0a/192.0.2.2',
      'vxlan/link/vx100',
      'vxlan/overlay/vx100',
      'vxlan/peer/vx100/02:00:00:00:00:0a',
      'vxlan/vxlan_input',
      'vxlan/vxlan_vteps4/192.0.2.2',
    ])
    const gone = await call('DELETE', `${NETWORKS}/100/peers/node2`)
    t.same([gone.status, gone.body], [200, { status: 'removed', vni: 100, host: 'node2' }])
    t.equal((await call('DELETE', `${NETWORKS}/100/peers/node2`)).status, 404)
    await call('POST', `${NETWORKS}/100/peers`, PEER)
    const deleted = await call('DELETE', `${NETWORKS}/100`)
    t.same([deleted.status, deleted.body], [200, { status: 'deleted', vni: 100 }])
    t.same(planned(), idle, 'its peers go with it')
    for (const vni of ['100', '0', 'x', '0100', '16777216', '-1']) {
      t.equal((await call('DELETE', `${NETWORKS}/${vni}`)).status, 404, vni)
      t.equal((await call('GET', `${NETWORKS}/${vni}/peers`)).status, 404, vni)
      t.equal((await call('POST', `${NETWORKS}/${vni}/peers`, PEER)).status, 404, vni)
    }
    const told = ['vxlan.created', 'vxlan_peer.created', 'vxlan_peer.deleted', 'vxlan_peer.created', 'vxlan.deleted']
    t.same(events(), told)
  },
)

t.test('vxlan-03 vxlan-07 what cannot be is refused, by field', async (t) => {
  const { call, unchanged } = await vxlan(t)
  await call('POST', NETWORKS, { vni: 7 })
  const refused = async (path: string, body: object, error: RegExp, status = 400) => {
    const answer = await unchanged(() => call('POST', path, body))
    t.equal(answer.status, status, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  for (const vni of [undefined, 0, -1, 16_777_216, 1.5, '5', null]) await refused(NETWORKS, { vni }, /vni/)
  for (const subnet of ['x', '10.0.0.0', '10.0.0.1/24', 'fd00::1/64', '10.0.0.0/33', 5]) {
    await refused(NETWORKS, { vni: 8, subnet }, /subnet/)
  }
  await refused(NETWORKS, { vni: 8, network: 'nobody' }, /not found/, 404)
  const peers = `${NETWORKS}/7/peers`
  await refused(peers, { vtep_ip: '192.0.2.2' }, /host/)
  for (const host of ['', 'a/b', 'a b', 'x'.repeat(254), 5]) await refused(peers, { ...PEER, host }, /host/)
  const unfit = ['', 'x', '192.0.2.2/32', '0.0.0.0', '127.0.0.1', '224.0.0.1', '255.255.255.255', '192.0.2', 'fe80::1']
  for (const vtep_ip of [...unfit, '::', '::1', 'ff02::1', '::ffff:192.0.2.2', '192.0.2.1', undefined, 5]) {
    await refused(peers, { host: 'a', vtep_ip }, /vtep_ip/)
  }
  for (const mac of ['x', '02:00:00:00:00', '01:00:5e:00:00:01', 'ff:ff:ff:ff:ff:ff', '00:00:00:00:00:00', 5]) {
    await refused(peers, { ...PEER, mac }, /mac/)
  }
  await refused(peers, { host: 'a', vtep_ip: '2001:db8::2' }, /own VTEP is 192\.0\.2\.1; set vxlan_local_ip/, 409)
  await call('POST', peers, { ...PEER, mac: '02:00:00:00:00:0a' })
  await refused(peers, { ...PEER, vtep_ip: '192.0.2.3' }, /node2 of VXLAN network 7 already exists/, 409)
  await refused(peers, { host: 'b', vtep_ip: '192.0.2.3', mac: '02:00:00:00:00:0A' }, /peer node2 with MAC/, 409)
})

t.test('what the kernel refuses never was', async (t) => {
  const { call, plane, unchanged } = await vxlan(t)
  await call('POST', NETWORKS, { vni: 7 })
  await call('POST', `${NETWORKS}/7/peers`, PEER)
  for (const [method, path, body] of [
    ['POST', NETWORKS, { vni: 8 }],
    ['POST', `${NETWORKS}/7/peers`, { host: 'b', vtep_ip: '192.0.2.3' }],
    ['DELETE', `${NETWORKS}/7/peers/node2`, undefined],
    ['DELETE', `${NETWORKS}/7`, undefined],
  ] as const) {
    plane.refuse = new KernelRefusal('no')
    t.equal((await unchanged(() => call(method, path, body))).status, 409)
  }
})

t.test('there are limits', async (t) => {
  const { call } = await vxlan(t, { config: { max_vxlans: '2', max_vxlan_peers: '1' } })
  for (const vni of [1, 2]) t.equal((await call('POST', NETWORKS, { vni })).status, 201)
  t.match((await call('POST', NETWORKS, { vni: 3 })).body, { error: 'limit reached: VXLAN networks (2)' })
  await call('POST', `${NETWORKS}/1/peers`, PEER)
  t.match((await call('POST', `${NETWORKS}/1/peers`, { ...PEER, host: 'b' })).body, {
    error: 'limit reached: VXLAN peers (1)',
  })
  t.equal((await call('POST', `${NETWORKS}/2/peers`, PEER)).status, 201, 'of each network')
})

t.test('D64 the local VTEP: as configured, else the first global address of the uplink', async (t) => {
  const { call, plane, renumber, agent } = await vxlan(t)
  const device = (vni: number) => plane.entries.get(`vxlan/link/vx${vni}`) as { mtu: number; device: { local: string } }
  const stands = (vni: number) => [device(vni).device.local, device(vni).mtu]
  const made = async (vni: number) => (await call('POST', NETWORKS, { vni })).status
  renumber('3 198.51.100.1/24')
  const none = await call('POST', NETWORKS, { vni: 1 })
  t.same(
    [none.status, none.body.error],
    [409, 'no local VTEP: the uplink up0 has no global address: give it one, or set vxlan_local_ip'],
  )
  renumber('2 2001:db8::1/64', '2 192.0.2.1/24')
  t.equal(await made(1), 201)
  t.same(stands(1), ['192.0.2.1', 1450], 'IPv4 before IPv6')
  renumber('2 192.0.2.7/24', '3 2001:db8::9/64', '1 203.0.113.1/32')
  t.equal(await made(2), 201)
  t.same(
    [stands(1), stands(2)],
    [
      ['192.0.2.7', 1450],
      ['192.0.2.7', 1450],
    ],
    'all of them move',
  )
  const set = async (text: string) => {
    agent.overrides.change(({ config }) => void Object.assign(config, { vxlan_local_ip: text }))
    await agent.config.reload()
  }
  await set('2001:db8::9')
  t.same(stands(1), ['2001:db8::9', 8930])
  await set('203.0.113.1')
  t.same(stands(1), ['203.0.113.1', 1450], 'of the loopback: what the uplink takes')
  await t.rejects(set('203.0.113.99'), { message: /no device has 203\.0\.113\.99/ })
  await set('203.0.113.1')
  await call('POST', `${NETWORKS}/1/peers`, PEER)
  await t.rejects(set('2001:db8::9'), { message: /peer node2 of VXLAN network 1 is at 192\.0\.2\.2/ })
  t.same(stands(1), ['203.0.113.1', 1450])
  renumber('2 192.0.2.2/24', '1 203.0.113.1/32')
  const own = { message: /local VTEP 192\.0\.2\.2 is that of a peer: set vxlan_local_ip, or delete the peer/ }
  await t.rejects(set('192.0.2.2'), own)
  t.same(stands(1), ['203.0.113.1', 1450])
})

t.test('a node whose uplink is not there is told so, and what to do', async (t) => {
  const { call, unchanged, agent } = await vxlan(t, { config: { uplink: 'away0' } })
  const none = await unchanged(() => call('POST', NETWORKS, { vni: 1 }))
  const why = 'make that device, name the one that is the uplink, or set vxlan_local_ip'
  t.same([none.status, none.body.error], [409, `no local VTEP: the uplink away0 is not there: ${why}`])
  agent.overrides.change(({ config }) => void Object.assign(config, { vxlan_local_ip: '192.0.2.1' }))
  await agent.config.reload()
  t.equal(
    (await call('POST', NETWORKS, { vni: 1 })).status,
    201,
    'the address is on another device, which routes lead to',
  )
})

t.test('a private network is told of overlays of its range that do not carry it', async (t) => {
  const { call } = await vxlan(t)
  const network = async (name: string, cidr: string) =>
    (await call('POST', '/api/v1/networks', { name, cidr, tenant_id: name })).body
  await call('POST', NETWORKS, { vni: 1 })
  await call('POST', NETWORKS, { vni: 6, subnet: 'fd00::/64' })
  await call('POST', NETWORKS, { vni: 900, subnet: '10.90.0.0/24' })
  const lan = await network('lan', '10.90.0.0/24')
  const { id } = lan.network as { id: string }
  const what = 'carries open ports and not this network, so machines of this network do not reach its peers'
  const remedy = `delete it, add it again with "network": "${id}", and add its peers again`
  t.same(lan.warnings, [`VXLAN network 900 (10.90.0.0/24) ${what}: ${remedy}`])
  t.match(
    (await network('wide', '10.90.0.0/16')).warnings,
    [/^VXLAN network 900 /],
    'also one that has more addresses, of which some are at the peers',
  )
  t.notOk('warnings' in (await network('other', '10.91.0.0/24')))
  await call('DELETE', `${NETWORKS}/900`)
  t.equal((await call('POST', NETWORKS, { vni: 900, network: id })).body.network_id, id, 'the remedy is one')
  t.notOk('warnings' in (await network('same', '10.90.0.0/24')), 'one that carries another network belongs to that')
  await call('DELETE', `/api/v1/networks/${id}`)
  t.match((await network('again', '10.90.0.0/24')).warnings, [/^VXLAN network 900 .* carries nothing and not this/])
  for (const vni of [11, 12, 13, 14]) await call('POST', NETWORKS, { vni, subnet: '10.7.0.0/24' })
  const { warnings } = await network('many', '10.7.0.0/24')
  t.match(warnings, [/ 11 /, / 12 /, / 13 /, /^1 more VXLAN networks /], 'the first are named')
})

t.test('parsers take any text, and what they let pass they leave as it is', (t) => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[0-9a-f:./-]{0,45}$/), fc.ipV4(), fc.ipV6(), fc.ipV4Extended())
  for (const read of [readSubnet, readMac, (it: string) => readVtep(it).text]) {
    fc.assert(
      fc.property(text, (input) => {
        try {
          const once = read(input)
          return read(once) === once
        } catch (error) {
          return error instanceof ApiError && error.status === 400
        }
      }),
      { numRuns: 2000 },
    )
  }
  fc.assert(fc.property(fc.string(), (input) => readVni(input) === 0 || String(readVni(input)) === input))
  t.pass('none threw anything else')
  t.end()
})
