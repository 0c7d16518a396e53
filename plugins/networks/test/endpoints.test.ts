/** Endpoints over REST: which there are, and their states. */
import t from 'tap'
import type { Endpoint } from '../schemas.ts'
import { NOW, networks, P } from './area.ts'

const ips = (list: readonly Endpoint[]) => list.map(({ ip }) => ip)

t.test('net-12 net-13 net-18 D46 one endpoint for every host address but the gateway', async (t) => {
  const { create, endpoints } = await networks(t)
  const table: [string, string, number, string, string][] = [
    ['10.0.0.0/24', '10.0.0.1', 253, '10.0.0.2', '10.0.0.254'],
    ['10.0.1.0/24', '', 254, '10.0.1.1', '10.0.1.254'],
    ['10.0.2.0/29', '10.0.2.6', 5, '10.0.2.1', '10.0.2.5'],
    ['10.0.2.8/29', '', 6, '10.0.2.9', '10.0.2.14'],
    ['10.0.3.0/30', '10.0.3.2', 1, '10.0.3.1', '10.0.3.1'],
    ['10.0.3.4/30', '', 2, '10.0.3.5', '10.0.3.6'],
    ['10.0.8.0/23', '10.0.9.0', 509, '10.0.8.1', '10.0.9.254'],
    ['10.0.10.0/23', '', 510, '10.0.10.1', '10.0.11.254'],
  ]
  for (const [cidr, gateway, count, first, last] of table) {
    const network = await create({ cidr, ...(gateway && { gateway }) })
    const list = ips(await endpoints(network))
    t.equal(list.length, count, cidr)
    t.same([list[0], list.at(-1)], [first, last])
    t.notOk(list.includes(gateway), 'the gateway is never listed')
    t.equal(new Set(list).size, count)
  }
})

t.test('net-12 D41 the largest network: every endpoint once, in order', async (t) => {
  const { create, endpoints, attach } = await networks(t)
  const network = await create({ cidr: '10.7.0.0/16', gateway: '10.7.1.244' })
  const bound = await Promise.all(['10.7.1.243', '10.7.1.245', '10.7.255.254'].map((ip) => attach(network, { ip })))
  const list = await endpoints(network)
  t.equal(list.length, 65_533)
  const numbers = list.map(({ id }) => Number.parseInt(id.slice(-8), 16))
  t.ok(numbers.every((it, at) => at === 0 || it > (numbers[at - 1] ?? 0)))
  t.same(
    list.filter(({ state }) => state === 'bound'),
    bound,
  )
})

t.test('net-14 net-15 net-16 fields of an endpoint that is free', async (t) => {
  const { create, endpoints } = await networks(t)
  const network = await create({ cidr: '10.0.0.0/29' })
  const list = await endpoints(network)
  t.match(list[4], { ip: '10.0.0.5', mac: '02:ce:0a:00:00:05', state: 'free', network_id: network.id })
  for (const endpoint of list) {
    t.same(Object.keys(endpoint).sort(), ['id', 'ip', 'mac', 'network_id', 'state'])
    t.match(endpoint.id, /^ep-[0-9a-f]{12}$/)
  }
  t.equal((await create({ cidr: '192.168.255.0/24' }).then(endpoints)).at(-1)?.mac, '02:ce:c0:a8:ff:fe')
})

t.test('net-19 net-20 ?mac= finds the one that has it', async (t) => {
  const { call, create, attach, endpoints } = await networks(t)
  const network = await create({ gateway: '10.0.0.1' })
  const bound = await attach(network, { ip: '10.0.0.9', mac: '02:AB:00:00:00:FF' })
  for (const mac of ['02:ab:00:00:00:ff', '02:AB:00:00:00:FF', '02-ab-00-00-00-fF']) {
    t.same(await endpoints(network, `?mac=${mac}`), [bound], mac)
  }
  t.match(await endpoints(network, '?mac=02:CE:0A:00:00:05'), [{ ip: '10.0.0.5', state: 'free' }], 'a computed one')
  for (const mac of ['02:ce:0a:00:00:09', '02:ce:0a:00:00:01', '02:ce:0a:00:00:00', '02:ce:0a:00:01:05']) {
    t.same(await endpoints(network, `?mac=${mac}`), [], `${mac} is nobody's`)
  }
  t.same(await endpoints(network, '?mac=ff:ff:ff:ff:ff:ff'), [])
  for (const mac of ['x', '', '02:ab:00:00:00', '02:ab-00:00:00:ff']) {
    t.equal((await call('GET', `${P}/networks/${network.id}/endpoints?mac=${mac}`)).status, 400, mac)
  }
  t.equal((await call('GET', `${P}/networks/x/endpoints`)).status, 404)
  t.equal((await call('GET', `${P}/networks/x/endpoints?mac=02:ab:00:00:00:ff`)).status, 404)
})

t.test('net-21 state-02 attach with an empty body takes the next free address', async (t) => {
  const { call, create, events, planned } = await networks(t)
  const network = await create({ gateway: '10.0.0.1' })
  events()
  const { status, body } = await call('POST', `${P}/networks/${network.id}/attach`)
  const endpoint = body.endpoint as Endpoint
  t.same(
    [status, body],
    [
      200,
      {
        status: 'attached',
        endpoint: {
          id: endpoint.id,
          network_id: network.id,
          ...{ ip: '10.0.0.2', mac: '02:ce:0a:00:00:02', state: 'bound', bound_at: NOW },
        },
      },
    ],
  )
  t.same(planned('binding'), ['networks/binding/1/10.0.0.2'])
  const resource = `${P}/networks/${network.id}/endpoints/${endpoint.id}`
  t.same(events(), [{ type: 'endpoint.attached', resource, data: endpoint }])
  t.match((await call('POST', `${P}/networks/${network.id}/attach`, {})).body, { endpoint: { ip: '10.0.0.3' } })
  t.equal((await call('POST', `${P}/networks/x/attach`, {})).status, 404)
})

t.test('net-22 net-23 net-24 state-01 state-03 attach by address, and again', async (t) => {
  const clock = { ms: Date.parse(NOW) }
  const { attach, create, endpoints } = await networks(t, { now: () => new Date(clock.ms) })
  const network = await create()
  const first = await attach(network, { ip: '10.0.0.9' })
  t.match(first, { ip: '10.0.0.9', state: 'bound', bound_at: NOW, mac: '02:ce:0a:00:00:09' })
  clock.ms += 60_000
  t.same(await attach(network, { ip: '10.0.0.9' }), first, 'the same endpoint, bound since then')
  t.same(await attach(network, { ip: '10.0.0.9', mac: '02-CE-0A-00-00-09' }), first)
  const other = await attach(network, { ip: '10.0.0.7', mac: '02:00:00:00:00:07' })
  t.match(other, { ip: '10.0.0.7', mac: '02:00:00:00:00:07' })
  t.same(await attach(network, { ip: '10.0.0.7' }), other)
  t.match(await attach(network, { mac: '06:00:00:00:00:01' }), { ip: '10.0.0.1', mac: '06:00:00:00:00:01' })
  t.match(await attach(network, { ip: '', mac: '' }), { ip: '10.0.0.2' }, 'empty is absent')
  t.same(
    (await endpoints(network)).filter(({ state }) => state === 'bound').map(({ ip }) => ip),
    ['10.0.0.1', '10.0.0.2', '10.0.0.7', '10.0.0.9'],
  )
})

t.test('net-25 net-26 D42 what attach refuses, and nothing changes', async (t) => {
  const { call, create, attach, changeMac, unchanged } = await networks(t)
  const network = await create({ cidr: '10.0.0.0/29', gateway: '10.0.0.1' })
  const held = await attach(network, { ip: '10.0.0.2', mac: '02:00:00:00:00:02' })
  const free = (await attach(network, { ip: '10.0.0.6' })).id
  await call('POST', `${P}/networks/${network.id}/endpoints/${free}/detach`)
  await changeMac({ ...held, id: free }, '02:00:00:00:00:06')
  const table: [object, number, RegExp][] = [
    [{ ip: '10.0.0.8' }, 404, /^network .* has no endpoint 10\.0\.0\.8$/],
    [{ ip: '192.168.0.1' }, 404, /has no endpoint 192\.168\.0\.1$/],
    [{ ip: '10.0.0.1' }, 400, /^ip: 10\.0\.0\.1 is the gateway/],
    [{ ip: '10.0.0.0' }, 400, /^ip: 10\.0\.0\.0 is the network address/],
    [{ ip: '10.0.0.7' }, 400, /^ip: 10\.0\.0\.7 is the broadcast address/],
    [{ ip: 'x' }, 400, /^ip: not an IPv4 address/],
    [{ ip: 'fd00::1' }, 400, /^ip: not an IPv4 address/],
    [{ ip: '10.0.0.3/29' }, 400, /^ip: not an IPv4 address/],
    [{ ip: 7 }, 400, /^ip: /],
    [{ ip: '10.0.0.2', mac: '02:00:00:00:00:03' }, 409, /is bound to 02:00:00:00:00:02/],
    [{ ip: '10.0.0.2', mac: '02:ce:0a:00:00:02' }, 409, /is bound to 02:00:00:00:00:02/],
    [{ mac: 'x' }, 400, /^mac: not a MAC address/],
    [{ mac: '02:00:00:00:00' }, 400, /^mac: not a MAC address/],
    [{ mac: '01:00:5e:00:00:01' }, 400, /^mac: 01:00:5e:00:00:01 is a multicast address/],
    [{ mac: 'ff:ff:ff:ff:ff:ff' }, 400, /multicast/],
    [{ mac: '00:00:00:00:00:00' }, 400, /^mac: 00:00:00:00:00:00 is no address of a NIC/],
    [{ mac: '02:00:00:00:00:02' }, 400, new RegExp(`held by endpoint ${held.id} \\(10\\.0\\.0\\.2\\)`)],
    [{ mac: '02:ce:0a:00:00:02' }, 400, new RegExp(`held by endpoint ${held.id}`)],
    [{ mac: '02:CE:0A:00:00:05' }, 400, /held by endpoint ep-\S+ \(10\.0\.0\.5\)/],
    [{ ip: '10.0.0.3', mac: '02:00:00:00:00:06' }, 400, new RegExp(`held by endpoint ${free}`)],
    [{ mac: false }, 400, /^mac: /],
  ]
  for (const [body, status, error] of table) {
    const answer = await unchanged(() => call('POST', `${P}/networks/${network.id}/attach`, body))
    t.equal(answer.status, status, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  const unknown = await call('POST', `${P}/networks/x/attach`, { mac: 'x' })
  t.equal(unknown.status, 400, 'a body that cannot be read wins over a network that is not there')
  t.match(await attach(network, { mac: '02:ce:0a:00:00:03' }), { ip: '10.0.0.3' }, 'its own MAC may be named')
  for (let n = 0; n < 3; n++) await attach(network)
  const full = await unchanged(() => call('POST', `${P}/networks/${network.id}/attach`, {}))
  t.same([full.status, full.body], [409, { error: 'no free address' }])
})

t.test('net-28 net-29 net-30 D43 state-04 detach, from any state', async (t) => {
  const { create, attach, detach, endpoints, events, planned, call } = await networks(t)
  const network = await create()
  const bound = await attach(network, { ip: '10.0.0.5', mac: '02:00:00:00:00:05' })
  events()
  const { status, body } = await detach(bound)
  const free = { id: bound.id, network_id: network.id, ip: '10.0.0.5', mac: '02:ce:0a:00:00:05', state: 'free' }
  t.same([status, body], [200, { status: 'detached', endpoint: free }], 'free, without bound_at, with its default MAC')
  const resource = `${P}/networks/${network.id}/endpoints/${bound.id}`
  t.same(events(), [{ type: 'endpoint.detached', resource, data: free }])
  t.same(planned('binding'), [])
  t.same((await call('GET', `${P}/ipam/allocations`)).body, { allocations: [] }, 'and the address is given back')
  const again = await detach(bound)
  t.same([again.status, again.body], [200, { status: 'detached', endpoint: free }])
  t.equal((await attach(network, { ip: '10.0.0.5' })).state, 'bound')
  t.equal((await endpoints(network, '?mac=02:00:00:00:00:05')).length, 0, 'the MAC is nobody’s again')
})

t.test('net-31 net-33 net-34 D43 state-05 the MAC of a free endpoint changes for good', async (t) => {
  const { create, attach, changeMac, detach, endpoints, events, planned } = await networks(t)
  const network = await create()
  const [first] = await endpoints(network)
  if (first === undefined) throw new Error('no endpoint')
  events()
  const changed = await changeMac(first, '02-00-00-00-00-AA')
  const endpoint = { ...first, mac: '02:00:00:00:00:aa' }
  t.same([changed.status, changed.body], [200, { status: 'updated', endpoint }])
  t.match(events(), [{ type: 'endpoint.updated', data: endpoint }])
  t.same((await changeMac(first, '02:00:00:00:00:aa')).body, { status: 'updated', endpoint }, 'the same is a success')
  t.same((await endpoints(network))[0], endpoint)
  t.same(planned('binding'), [])
  const bound = await attach(network, { ip: first.ip })
  t.equal(bound.mac, '02:00:00:00:00:aa')
  await changeMac(bound, '02:00:00:00:00:bb')
  await detach(bound)
  t.same((await endpoints(network))[0], endpoint, 'what it had while free is what it returns to')
  await attach(network, { ip: first.ip, mac: '02:00:00:00:00:cc' })
  const other = { ...first, id: (await endpoints(network))[1]?.id ?? '' }
  t.match((await changeMac(other, '02:00:00:00:00:aa')).body.error, `is held by endpoint ${first.id}`)
  t.match((await detach(bound)).body, { endpoint })
  await changeMac(first, first.mac)
  t.same((await endpoints(network))[0], first)
})

t.test('net-32 state-05 the MAC of a bound endpoint moves in one passage of one entry', async (t) => {
  const { create, attach, changeMac, detach, endpoints, plane } = await networks(t)
  const network = await create()
  const bound = await attach(network)
  const before = plane.applied
  const { status, body } = await changeMac(bound, '02:00:00:00:00:aa')
  t.same([status, body], [200, { status: 'updated', endpoint: { ...bound, mac: '02:00:00:00:00:aa' } }])
  t.equal(plane.applied, before + 1)
  t.match(plane.entries.get('networks/binding/1/10.0.0.1'), { kind: 'binding', mac: '02:00:00:00:00:aa' })
  await changeMac(bound, '02:00:00:00:00:aa')
  t.equal(plane.applied, before + 1, 'the same MAC asks nothing of the kernel')
  t.match((await endpoints(network))[0], { state: 'bound', bound_at: NOW })
  await detach(bound)
  t.equal((await endpoints(network))[0]?.mac, '02:ce:0a:00:00:01')
})

t.test('net-35 net-36 net-37 net-38 what a MAC change refuses, and nothing changes', async (t) => {
  const { call, create, attach, changeMac, endpoints, unchanged } = await networks(t)
  const [network, other] = [await create(), await create({ cidr: '10.1.0.0/24', gateway: '10.1.0.1' })]
  const bound = await attach(network, { ip: '10.0.0.7', mac: '02:00:00:00:00:07' })
  const [free] = await endpoints(network)
  if (free === undefined) throw new Error('no endpoint')
  await changeMac({ ...free, id: (await endpoints(network))[2]?.id ?? '' }, '02:00:00:00:00:03')
  const table: [unknown, RegExp][] = [
    ['x', /^mac: not a MAC address/],
    ['', /^mac: not a MAC address/],
    ['02:00:00:00:00:0g', /^mac: not a MAC address/],
    ['02:00-00:00:00:00', /^mac: not a MAC address/],
    [7, /^mac: /],
    [undefined, /^mac is required/],
    ['03:00:00:00:00:01', /multicast/],
    ['33:33:00:00:00:01', /multicast/],
    ['00:00:00:00:00:00', /no address of a NIC/],
    ['02:00:00:00:00:07', new RegExp(`is held by endpoint ${bound.id} \\(10\\.0\\.0\\.7\\)`)],
    ['02:ce:0a:00:00:07', new RegExp(`is held by endpoint ${bound.id}`)],
    ['02:ce:0a:00:00:63', /is held by endpoint \S+ \(10\.0\.0\.99\)/],
    ['02:00:00:00:00:03', /is held by endpoint \S+ \(10\.0\.0\.3\)/],
  ]
  for (const [mac, error] of table) {
    const answer = await unchanged(() => changeMac(free, mac))
    t.equal(answer.status, 400, String(mac))
    t.match(answer.body.error, error)
  }
  const [elsewhere] = await endpoints(other)
  const path = (eid: string) => `${P}/networks/${network.id}/endpoints/${eid}`
  const gateway = (elsewhere?.id ?? '').replace(/..$/, '01')
  const unknown = ['ep-000000000000', 'x', elsewhere?.id ?? '', free.id.toUpperCase(), free.id.replace(/..$/, '00')]
  for (const eid of unknown) {
    t.equal((await call('PUT', `${path(eid)}/mac`, { mac: '02:00:00:00:00:01' })).status, 404, eid)
    t.equal((await call('POST', `${path(eid)}/detach`)).status, 404, eid)
  }
  t.equal((await call('POST', `${P}/networks/${other.id}/endpoints/${gateway}/detach`)).status, 404, 'the gateway')
  t.equal((await changeMac({ ...free, network_id: 'x' }, '02:00:00:00:00:01')).status, 404)
  t.equal((await changeMac({ ...free, network_id: other.id }, '02:00:00:00:00:01')).status, 404)
  t.equal((await attach(other, { mac: '02:00:00:00:00:07' })).mac, '02:00:00:00:00:07', 'another network, another MAC')
})

t.test('net-21 attaches at the same time get endpoints of their own', async (t) => {
  const { create, attach, planned } = await networks(t)
  const network = await create()
  const got = await Promise.all(Array.from({ length: 100 }, () => attach(network)))
  t.equal(new Set(ips(got)).size, 100)
  t.equal(planned('binding').length, 100)
  const same = await Promise.all(Array.from({ length: 10 }, () => attach(network, { ip: '10.0.0.200' })))
  t.equal(new Set(same.map((one) => JSON.stringify(one))).size, 1)
})
