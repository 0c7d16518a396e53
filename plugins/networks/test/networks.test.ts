/** Private networks over REST: their life, and what is refused. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import type { Network } from '../schemas.ts'
import { ALWAYS, NOW, networks, P } from './area.ts'

/** The pool of the first network. */
const POOL = 2 ** 40 + 1
const OFF = { enabled: false, snat: false, dhcp: false }

t.test('net-01 net-02 net-08 net-09 net-44 a network that was created is listed and shown', async (t) => {
  const { call, events } = await networks(t)
  t.same((await call('GET', `${P}/networks`)).body, { networks: [] })
  const { status, body } = await call('POST', `${P}/networks`, { name: 'small', cidr: '10.0.0.0/24' })
  const small = body.network as Network
  t.equal(status, 201)
  t.match(small.id, /^net-[0-9a-f]{12}$/)
  t.same(body, {
    status: 'created',
    network: { id: small.id, name: 'small', cidr: '10.0.0.0/24', created_at: NOW, host_gateway: OFF },
  })
  t.same(events(), [{ type: 'network.created', resource: `${P}/networks/${small.id}`, data: small }], 'one event')
  const full = { name: 'full one', cidr: '10.1.0.0/16', gateway: '10.1.7.1', vlan: 4094, tenant_id: 'acme' }
  const { network } = (await call('POST', `${P}/networks`, full)).body as { network: Network }
  t.match(network, full, 'what is optional comes back')
  t.same((await call('GET', `${P}/networks`)).body, { networks: [network, small] })
  const one = await call('GET', `${P}/networks/${network.id}`)
  t.same([one.status, one.body], [200, { network }])
  const empty = { name: 'e', cidr: '10.2.0.0/24', gateway: '', tenant_id: '', host_gateway: false, snat: false }
  t.match((await call('POST', `${P}/networks`, empty)).body, { network: { host_gateway: OFF } }, 'empty is absent')
  for (const id of ['net-000000000000', 'x', '1', '%2e%2e']) {
    t.equal((await call('GET', `${P}/networks/${id}`)).status, 404, id)
  }
})

t.test('D18 a network is changed by whoever has read it as it is', async (t) => {
  const { call, create } = await networks(t)
  const { id } = await create({ gateway: '10.0.0.1' })
  const { headers } = await call('GET', `${P}/networks/${id}`)
  const held = { 'if-match': String(headers.etag) }
  t.equal((await call('PUT', `${P}/networks/${id}/host-gateway`, {}, held)).status, 200)
  t.equal((await call('DELETE', `${P}/networks/${id}/host-gateway`, undefined, held)).status, 412)
  t.equal((await call('DELETE', `${P}/networks/${id}`, undefined, held)).status, 412)
  const now = { 'if-match': String((await call('GET', `${P}/networks/${id}`)).headers.etag) }
  t.equal((await call('DELETE', `${P}/networks/${id}`, undefined, now)).status, 200)
})

t.test(
  'net-03 net-04 net-06 net-07 net-51 D19 D20 D45 D46 what is not a network is 400, and nothing is there',
  async (t) => {
    const { call, create, unchanged } = await networks(t)
    await create({ name: 'there', cidr: '10.9.0.0/16' })
    await call('POST', `${P}/ipam/pools`, { name: 'pool', subnet: '10.8.0.0/16' })
    const ok = { name: 'x', cidr: '10.0.0.0/24' }
    const table: [object, RegExp][] = [
      [{ cidr: '10.0.0.0/24' }, /^name is required$/],
      [{ name: 'x' }, /^cidr is required$/],
      [{}, /is required$/],
      [{ ...ok, name: '' }, /^name: /],
      [{ ...ok, name: 'x'.repeat(64) }, /^name: /],
      [{ ...ok, name: 'a\nb' }, /^name: /],
      [{ ...ok, name: 1 }, /^name: /],
      [{ ...ok, cidr: 'fd00::/64' }, /^cidr: must be IPv4/],
      [{ ...ok, cidr: '::ffff:10.0.0.0/120' }, /^cidr: must be IPv4/],
      [{ ...ok, cidr: '10.0.0.0' }, /^cidr: not a CIDR/],
      [{ ...ok, cidr: '10.0.0/24' }, /^cidr: not a CIDR/],
      [{ ...ok, cidr: '10.0.0.0/33' }, /^cidr: not a CIDR/],
      [{ ...ok, cidr: 'lab' }, /^cidr: not a CIDR/],
      [{ ...ok, cidr: '' }, /^cidr: not a CIDR/],
      [{ ...ok, cidr: 10 }, /^cidr: /],
      [{ ...ok, cidr: '10.0.0.1/24' }, /^cidr: has host bits set: the block is 10\.0\.0\.0\/24/],
      [{ ...ok, cidr: '10.0.0.0/15' }, /^cidr: must be from \/16 to \/30/],
      [{ ...ok, cidr: '10.0.0.0/31' }, /^cidr: must be from \/16 to \/30/],
      [{ ...ok, cidr: '10.0.0.0/32' }, /^cidr: must be from \/16 to \/30/],
      [{ ...ok, cidr: '10.9.7.0/24' }, /^cidr: overlaps network there \(10\.9\.0\.0\/16\)$/],
      [{ ...ok, cidr: '10.8.0.0/30' }, /^cidr: overlaps pool 1 \(pool, /],
      [{ ...ok, gateway: 'x' }, /^gateway: not an IPv4 address/],
      [{ ...ok, gateway: 'fd00::1' }, /^gateway: not an IPv4 address/],
      [{ ...ok, gateway: '10.0.0.1/24' }, /^gateway: not an IPv4 address/],
      [{ ...ok, gateway: '10.0.1.1' }, /^gateway: must be a host address inside 10\.0\.0\.0\/24/],
      [{ ...ok, gateway: '10.0.0.0' }, /^gateway: must be a host address/],
      [{ ...ok, gateway: '10.0.0.255' }, /^gateway: must be a host address/],
      [{ ...ok, vlan: 0 }, /^vlan: /],
      [{ ...ok, vlan: 4095 }, /^vlan: /],
      [{ ...ok, vlan: -1 }, /^vlan: /],
      [{ ...ok, vlan: 1.5 }, /^vlan: /],
      [{ ...ok, vlan: '7' }, /^vlan: /],
      [{ ...ok, tenant_id: 'a/b' }, /^tenant_id: /],
      [{ ...ok, host_gateway: 'yes' }, /^host_gateway: /],
    ]
    for (const [body, error] of table) {
      const answer = await unchanged(() => call('POST', `${P}/networks`, body))
      t.equal(answer.status, 400, JSON.stringify(body))
      t.match(answer.body.error, error)
    }
    t.equal((await call('POST', `${P}/networks`, { ...ok, vlan: 1 })).status, 201, 'control')
  },
)

t.test('net-05 D8 D20 D45 what is taken is 409, and nothing is there', async (t) => {
  const { call, create, addRange, unchanged } = await networks(t, { config: { max_networks: '3' } })
  await create({ name: 'lab', cidr: '10.0.0.0/24', vlan: 7 })
  await create({ name: 'held', cidr: '10.5.0.0/16', gateway: '10.5.0.1', host_gateway: true, tenant_id: 'a' })
  await addRange('8.8.4.0/24')
  const held = { name: 'x', cidr: '10.5.7.0/24', gateway: '10.5.7.1', host_gateway: true, tenant_id: 'b' }
  const table: [object, RegExp][] = [
    [{ name: 'lab', cidr: '10.1.0.0/24' }, /^network lab already exists$/],
    [{ name: 'lab', cidr: '10.0.0.0/24' }, /^network lab already exists$/],
    [{ name: 'x', cidr: '10.1.0.0/24', vlan: 7 }, /^vlan: 7 belongs to network lab$/],
    [held, /^host_gateway: network held \(10\.5\.0\.0\/16\) overlaps and has the host gateway/],
    [{ name: 'x', cidr: '8.8.0.0/16' }, /^cidr: overlaps the routed addresses 8\.8\.4\.0\/24/],
    [{ name: 'x', cidr: '8.8.4.128/25' }, /^cidr: overlaps the routed addresses/],
  ]
  for (const [body, error] of table) {
    const answer = await unchanged(() => call('POST', `${P}/networks`, body))
    t.equal(answer.status, 409, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  t.equal((await call('POST', `${P}/networks`, { ...held, host_gateway: false })).status, 201, 'without it they may')
  const full = await unchanged(() => call('POST', `${P}/networks`, { name: 'y', cidr: '10.77.0.0/24' }))
  t.same([full.status, full.body], [409, { error: 'limit reached: networks (3)' }])
})

t.test('D20 the limit is 1024 unless configured', async (t) => {
  const { agent } = await networks(t)
  t.equal(agent.config.int('max_networks'), 1024)
})

t.test('net-10 net-11 D9 DELETE, refused while an endpoint is bound', async (t) => {
  const area = await networks(t)
  const { agent, call, create, attach, changeMac, detach, endpoints, events, plane, planned, unchanged } = area
  const network = await create({ gateway: '10.0.0.1', vlan: 9, host_gateway: true })
  const bound = await attach(network)
  const [edited] = (await endpoints(network)).slice(-1)
  if (edited) await changeMac(edited, '02:00:00:00:00:09')
  const refused = await unchanged(() => call('DELETE', `${P}/networks/${network.id}`))
  t.equal(refused.status, 409)
  t.match(refused.body.error, `endpoint ${bound.id} (10.0.0.2) is bound`)
  await detach(bound)
  await call('POST', `${P}/ipam/allocate`, { pool_id: POOL })
  events()
  const { status, body } = await call('DELETE', `${P}/networks/${network.id}`)
  t.same([status, body], [200, { status: 'deleted', id: network.id }])
  t.same(events(), [{ type: 'network.deleted', resource: `${P}/networks/${network.id}`, data: { id: network.id } }])
  for (const id of [network.id, 'x']) t.equal((await call('DELETE', `${P}/networks/${id}`)).status, 404)
  t.same(planned(), ALWAYS, 'nothing of it is in the plane')
  t.same((await call('GET', `${P}/ipam/pools`)).body, { pools: [] }, 'nor in IPAM')
  t.same((await call('GET', `${P}/ipam/allocations`)).body, { allocations: [] })
  t.same(snapshot({ agent, plane }).rows.networks_endpoints, [])
  await create({ cidr: '10.0.0.0/24', vlan: 9 })
})

t.test('net-17 D44 a network has its pool, which goes with it and reserves', async (t) => {
  const { call, create, attach, endpoints } = await networks(t)
  const network = await create({ name: 'lab', gateway: '10.0.0.1', tenant_id: 'acme' })
  const pool = {
    ...{ id: POOL, name: 'lab', subnet: '10.0.0.0/24', gateway: '10.0.0.1', range_start: '10.0.0.1' },
    ...{ range_end: '10.0.0.254', is_ipv6: false, tenant_id: 'acme' },
  }
  t.same((await call('GET', `${P}/ipam/pools`)).body, { pools: [pool] })
  const kept = await call('DELETE', `${P}/ipam/pools/${POOL}`)
  t.equal(kept.status, 409)
  t.match(kept.body.error, `belongs to network ${network.id}`)
  t.match((await call('POST', `${P}/ipam/allocate`, { pool_id: POOL })).body, { ip: '10.0.0.2' })
  t.match((await endpoints(network)).slice(0, 1), [{ ip: '10.0.0.2', state: 'free' }], 'reserved is not bound')
  const bound = await attach(network)
  t.equal(bound.ip, '10.0.0.3', 'the next free one is not the reserved one')
  t.match((await call('GET', `${P}/ipam/allocations`)).body.allocations, [
    { ip: '10.0.0.2', hostname: '' },
    { ip: '10.0.0.3', hostname: bound.id },
  ])
  const reserved = await call('POST', `${P}/networks/${network.id}/attach`, { ip: '10.0.0.2' })
  t.same([reserved.status, reserved.body], [409, { error: `10.0.0.2 of pool ${POOL} is taken by allocation 1` }])
  const used = await call('POST', `${P}/ipam/release`, { pool_id: POOL, ip: '10.0.0.3' })
  t.match([used.status, used.body], [409, { error: `10.0.0.3 is in use by endpoint ${bound.id}: detach that first` }])
  await call('POST', `${P}/ipam/release`, { pool_id: POOL, ip: '10.0.0.2' })
  t.equal((await attach(network, { ip: '10.0.0.2' })).ip, '10.0.0.2')
})

t.test('D41 a number of a network is not used again at once', async (t) => {
  const { call, create, attach, detach } = await networks(t)
  const ids = new Set<string>()
  for (let n = 0; n < 3; n++) {
    const network = await create()
    const endpoint = await attach(network)
    ids.add(endpoint.id)
    await detach(endpoint)
    await call('DELETE', `${P}/networks/${network.id}`)
  }
  t.equal(ids.size, 3)
})

t.test('err-10 what the kernel refuses never was', async (t) => {
  const { call, create, attach, addRange, attachNic, plane, unchanged } = await networks(t)
  const network = await create({ gateway: '10.0.0.1' })
  const bound = await attach(network)
  await addRange('8.8.4.0/30')
  const path = `${P}/networks/${network.id}`
  const changes: [string, string, unknown?][] = [
    ['POST', `${P}/networks`, { name: 'other', cidr: '10.7.0.0/24' }],
    ['PUT', `${path}/host-gateway`, {}],
    ['POST', `${path}/attach`, {}],
    ['PUT', `${path}/endpoints/${bound.id}/mac`, { mac: '02:00:00:00:00:01' }],
    ['POST', `${path}/endpoints/${bound.id}/detach`],
    ['POST', `${P}/routed-addresses`, { cidr: '8.8.8.0/30' }],
    ['DELETE', `${P}/routed-addresses/8.8.4.0-30`],
  ]
  for (const [method, target, body] of changes) {
    const answer = await unchanged(() => {
      plane.refuse = new KernelRefusal('No buffer space available')
      return call(method, target, body)
    })
    t.equal(answer.status, 409, `${method} ${target}`)
    t.match(answer.body.error, /No buffer space available/)
  }
  await unchanged(async () => {
    plane.refuse = new KernelRefusal('No such device')
    await t.rejects(attachNic('vm', { network: network.id, public_ip: 'auto' }))
  })
})
