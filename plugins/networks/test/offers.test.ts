/** NICs of machines: endpoints and public addresses taken together, and what the plane is asked for. */
import t from 'tap'
import { ROUTED_NET_BASE } from '../../../dataplane/numbers.ts'
import { claimRef, endpointRef, insideRef, netRef, routedRef } from '../desired.ts'
import { endpointByMac, networkCalled, nicsOf, readRef } from '../offers.ts'
import { ALWAYS, networks, P } from './area.ts'

const NET = ROUTED_NET_BASE + 1

t.test('a NIC with an endpoint: by id or name, declared on a device', async (t) => {
  const { create, attachNic, detachNics, endpoints, events, plane, planned } = await networks(t)
  const network = await create({ name: 'lab', gateway: '10.0.0.1' })
  events()
  const nic = await attachNic('vm1', { network: 'lab', port: 'tap1' })
  const [bound] = await endpoints(network, '?mac=02:ce:0a:00:00:02')
  t.same(nic, {
    ...{ network_id: network.id, endpoint_id: bound?.id, ip: '10.0.0.2', mac: '02:ce:0a:00:00:02', port: 'tap1' },
  })
  t.match(events(), [{ type: 'endpoint.attached', data: bound }])
  t.match(plane.entries.get('networks/binding/1/10.0.0.2'), { port: 'tap1', routed: [] })
  const second = await attachNic('vm1', { network: network.id, ip: '10.0.0.9', mac: '02-00-00-00-00-09' })
  t.match(second, { ip: '10.0.0.9', mac: '02:00:00:00:00:09' })
  t.same(await detachNics('vm1'), [nic, second])
  t.match(
    events().map(({ type }) => type),
    ['endpoint.attached', 'endpoint.detached', 'endpoint.detached'],
  )
  t.same(planned('binding'), [])
  t.same(await detachNics('vm1'), [])
})

t.test('routed-18 a NIC with a public address alone has a network of its own', async (t) => {
  const { addRange, attachNic, detachNics, events, plane, planned, routed } = await networks(t)
  const range = await addRange('8.8.4.0/30')
  events()
  const nic = await attachNic('vm1', { public_ip: 'auto', port: 'tap1' })
  t.same(nic, { mac: '02:ce:08:08:04:00', public_ip: '8.8.4.0', port: 'tap1' })
  const address = { ip: '8.8.4.0', range_id: range.id, tenant_id: '', used_by: 'vm1', mac: nic.mac }
  t.same(events(), [{ type: 'allocation.created', resource: `${P}/routed-addresses/${range.id}`, data: address }])
  const { ranges, addresses } = await routed()
  t.same(ranges, [{ ...range, used: 1, free: 3 }], 'used and free add up to size')
  t.same(addresses[0], address)
  t.match(plane.entries.get(`networks/net/${NET}`), { net: NET, hostGateway: false })
  t.match(plane.entries.get(`networks/binding/${NET}/8.8.4.0`), { address: '8.8.4.0', mac: nic.mac, port: 'tap1' })
  t.match(plane.entries.get('networks/address/br-work/169.254.0.1/32'), { kind: 'address', link: 'br-work' })
  t.match(plane.entries.get('networks/route/254/8.8.4.0/32/0'), { destination: '8.8.4.0/32', link: 'br-work' })
  t.match(plane.entries.get('networks/neighbour/br-work/8.8.4.0'), { address: '8.8.4.0', mac: nic.mac })
  const other = await attachNic('vm2', { public_ip: '8.8.4.2', mac: '02:00:00:00:00:02' })
  t.same(other, { mac: '02:00:00:00:00:02', public_ip: '8.8.4.2' })
  await detachNics('vm1')
  t.match(events().slice(-1), [{ type: 'allocation.deleted', data: address }])
  t.same(planned('address'), ['networks/address/br-work/169.254.0.1/32'], 'another machine still needs it')
  await detachNics('vm2')
  t.same(planned(), [...ALWAYS, 'networks/networks_inside/8.8.4.0/30'].sort())
  t.same((await routed()).ranges, [range])
})

t.test('routed-18 a NIC with both: the public address follows the endpoint’s MAC', async (t) => {
  const { create, addRange, attachNic, changeMac, detach, detachNics, endpoints, plane, planned, routed } =
    await networks(t)
  const network = await create({ name: 'lab' })
  await addRange('8.8.4.0/30')
  const applied = plane.applied
  const nic = await attachNic('vm1', { network: 'lab', public_ip: '8.8.4.3' })
  t.equal(plane.applied, applied + 4, 'binding, gateway, route and neighbour, each once')
  t.match(nic, { ip: '10.0.0.1', mac: '02:ce:0a:00:00:01', public_ip: '8.8.4.3' })
  t.match(plane.entries.get('networks/binding/1/10.0.0.1'), { routed: ['8.8.4.3'] })
  t.same(planned('net/'), ['networks/net/1'], 'it needs no other network')
  const [bound] = await endpoints(network)
  if (bound === undefined) throw new Error('no endpoint')
  await changeMac(bound, '02:00:00:00:00:01')
  t.equal((await routed()).addresses[3]?.mac, '02:00:00:00:00:01')
  t.match(plane.entries.get('networks/neighbour/br-work/8.8.4.3'), { mac: '02:00:00:00:00:01' })
  await detach(bound)
  t.match((await routed()).addresses[3], { used_by: 'vm1', mac: '02:00:00:00:00:01' }, 'it keeps the public address')
  t.same(planned('binding'), [`networks/binding/${NET}/8.8.4.3`])
  t.same(await detachNics('vm1'), [{ mac: '02:00:00:00:00:01', public_ip: '8.8.4.3' }])
  t.same(planned('binding'), [])
  t.match((await routed()).addresses[3], { used_by: '', mac: '' })
})

t.test('routed-17 a range of which an address is used stays', async (t) => {
  const { call, addRange, attachNic, detachNics, unchanged } = await networks(t)
  const range = await addRange('8.8.4.0/30')
  await attachNic('vm1', { public_ip: '8.8.4.1' })
  for (const way of [`/${range.id}`, '/8.8.4.0-30', '?cidr=8.8.4.0/30']) {
    const { status, body } = await unchanged(() => call('DELETE', `${P}/routed-addresses${way}`))
    t.same([status, body], [409, { error: '8.8.4.0/30 is in use: machine vm1 has 8.8.4.1' }])
  }
  await detachNics('vm1')
  t.equal((await call('DELETE', `${P}/routed-addresses/${range.id}`)).status, 200)
})

t.test(
  'routed-18 auto takes the lowest free address: of the tenant’s ranges, else of those for everybody',
  async (t) => {
    const { create, addRange, attachNic, detachNics } = await networks(t)
    await addRange('8.8.4.0/31', { tenant_id: 'a' })
    await addRange('8.8.8.0/30')
    await addRange('8.8.5.0/30', { tenant_id: 'b' })
    await create({ name: 'a', tenant_id: 'a' })
    const auto = async (machine: string, network = '') =>
      (await attachNic(machine, { public_ip: 'auto', ...(network && { network }) })).public_ip
    t.equal(await auto('m1'), '8.8.8.0', 'a machine of nobody takes what is for everybody')
    t.equal(await auto('m2', 'a'), '8.8.4.0')
    t.equal(await auto('m3', 'a'), '8.8.4.1')
    t.equal(await auto('m4', 'a'), '8.8.8.1', 'when its own are used up')
    await attachNic('m5', { public_ip: '8.8.8.3' })
    t.equal(await auto('m6'), '8.8.8.2')
    await t.rejects(auto('m7'), { message: 'public_ip: no free address' })
    await detachNics('m4')
    t.equal(await auto('m7'), '8.8.8.1')
  },
)

t.test('what a NIC is refused leaves nothing', async (t) => {
  const { create, addRange, attach, attachNic, unchanged } = await networks(t)
  const lab = await create({ name: 'lab', gateway: '10.0.0.1', tenant_id: 'a' })
  await create({ name: 'other', cidr: '10.1.0.0/24' })
  await addRange('8.8.4.0/30')
  await addRange('8.8.5.0/30', { tenant_id: 'b' })
  await attachNic('vm1', { network: 'lab', ip: '10.0.0.5', public_ip: '8.8.4.1', port: 'tap1' })
  await attachNic('vm1', { public_ip: '8.8.4.2', port: 'tap2' })
  const table: [object, number, RegExp][] = [
    [{}, 400, /^network or public_ip is required$/],
    [{ network: '', public_ip: '' }, 400, /^network or public_ip is required$/],
    [{ ip: '10.0.0.9', public_ip: 'auto' }, 400, /^ip: needs network/],
    [{ network: 'nowhere' }, 404, /^network nowhere not found$/],
    [{ network: 'lab', ip: 'x' }, 400, /^ip: /],
    [{ network: 'lab', mac: '01:00:00:00:00:00' }, 400, /multicast/],
    [{ network: 'lab', public_ip: 'x' }, 400, /^public_ip: must be auto or an IPv4 address/],
    [{ network: 'lab', public_ip: '8.8.9.9' }, 404, /^routed address 8\.8\.9\.9 not found$/],
    [{ network: 'lab', public_ip: '8.8.4.1' }, 409, /8\.8\.4\.1 is used by machine vm1/],
    [{ network: 'lab', public_ip: '8.8.5.1' }, 409, /reserved to tenant b/],
    [{ network: 'lab', ip: '10.0.0.5' }, 409, /is used by machine vm1/],
    [{ network: 'lab', port: 'tap2' }, 409, /^port: tap2 is declared by machine vm1/],
    [{ network: 'other', port: 'tap1' }, 409, /^port: tap1 is declared by machine vm1/],
    [{ public_ip: 'auto', port: 'tap1' }, 409, /^port: tap1/],
    [{ public_ip: 'auto', port: 'tap2' }, 409, /^port: tap2/],
    [{ public_ip: 'auto', mac: '02:ce:08:08:04:02' }, 400, /is held by machine vm1 \(8\.8\.4\.2\)/],
    [{ public_ip: '8.8.4' }, 400, /^public_ip: /],
  ]
  for (const [wanted, status, message] of table) {
    await unchanged(() => t.rejects(attachNic('vm2', wanted), { status, message }, JSON.stringify(wanted)))
  }
  const again = { network: 'lab', ip: '10.0.0.5' }
  const own: [object, RegExp][] = [
    [{ ...again, mac: '02:00:00:00:00:01' }, /is bound to 02:ce:0a:00:00:05/],
    [{ ...again, port: 'tap9' }, /is declared on tap1/],
    [{ ...again, public_ip: 'auto' }, /10\.0\.0\.5 has 8\.8\.4\.1 already/],
  ]
  for (const [wanted, message] of own) {
    await unchanged(() => t.rejects(attachNic('vm1', wanted), { status: 409, message }, JSON.stringify(wanted)))
  }
  t.match(await attachNic('vm2', { public_ip: '8.8.5.1' }), { public_ip: '8.8.5.1' }, 'the operator may give any')
  t.match(await attachNic('vm2', { network: 'lab', port: 'tap1' }), { port: 'tap1' }, 'several NICs behind one device')
  await attach(lab, { ip: '10.0.0.77' })
  t.match(await attachNic('vm2', { network: 'lab', ip: '10.0.0.77', port: 'tap1' }), { port: 'tap1' }, 'nobody’s yet')
})

t.test('the public address that stays alone does not take a device that others are declared on', async (t) => {
  const { create, addRange, attachNic, detach, endpoints, planned, plane } = await networks(t)
  const network = await create({ name: 'lab' })
  await addRange('8.8.4.0/30')
  await attachNic('vm1', { network: 'lab', public_ip: 'auto', port: 'tap1' })
  await attachNic('vm2', { network: 'lab', port: 'tap1' })
  const [first] = await endpoints(network)
  if (first) await detach(first)
  t.same(planned('binding'), ['networks/binding/1/10.0.0.2', `networks/binding/${NET}/8.8.4.0`])
  t.notOk('port' in (plane.entries.get(`networks/binding/${NET}/8.8.4.0`) ?? {}))
})

t.test('who is who', async (t) => {
  const { agent, create, attach } = await networks(t)
  const network = await create({ name: 'lab' })
  const bound = await attach(network, { mac: '02:00:00:00:00:01' })
  const { read } = agent.store
  t.same([networkCalled(read, 'lab'), networkCalled(read, network.id)], [network, network])
  t.throws(() => networkCalled(read, 'x'), { message: 'network x not found' })
  t.same(endpointByMac(read, network.id, '02:00:00:00:00:01'), bound)
  t.match(endpointByMac(read, network.id, '02:ce:0a:00:00:09'), { ip: '10.0.0.9', state: 'free' })
  t.equal(endpointByMac(read, network.id, '02:00:00:00:00:02'), undefined)
  t.equal(endpointByMac(read, 'net-1', '02:00:00:00:00:01'), undefined)
  t.same(nicsOf(read, 'vm'), [])
})

t.test('a ref tells those who follow it what it is about', async (t) => {
  t.same(readRef(netRef(7).id), { kind: 'net', net: 7 })
  t.same(readRef(endpointRef({ net: 7, address: 9 }).id), { kind: 'endpoint', net: 7, address: 9 })
  t.same(readRef(claimRef(9).id), { kind: 'claim', ip: 9 })
  const others = [insideRef({ first: 1, last: 2 }).id, routedRef.id]
  for (const id of [...others, '', 'net', 'net/', 'net/x', 'net/7/9', 'endpoint/7', 'claim/1/2', 'net/7/', 'anet/7']) {
    t.equal(readRef(id), undefined, id)
  }
})
