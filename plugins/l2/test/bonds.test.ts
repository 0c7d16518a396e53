/** Bonds over REST, over a plane in memory whose devices the test makes up. */
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import type { BondState } from '../../../dataplane/netlink/bond.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { buildArea } from '../../../test/build.ts'
import { moves } from '../bond-news.ts'
import { memberState } from '../bonds.ts'
import { address, bonds, device, LAN } from './bonds-area.ts'

t.test('bond-01 bond-02 bond-04 bond-05 bonds are made, listed, shown and removed', async (t) => {
  const { call, ok, plane, events } = await bonds(t)
  t.same(await ok('GET', '/api/v1/bonds'), { bonds: [] })
  const made = await call('POST', '/api/v1/bonds', { name: 'bond0', mode: '802.3ad' })
  const { id } = made.body.bond as { id: string }
  t.match(id, /^bond-[0-9a-f]{12}$/)
  const bond = { id, name: 'bond0', mode: '802.3ad', mtu: 1500, active_slave: '', members: [] }
  t.same([made.status, made.body], [201, { status: 'created', bond }])
  t.match(plane.entries.get('l2/link/bond0'), {
    ...{ mtu: 1500, up: true },
    device: { type: 'bond', mode: '802.3ad', miimon: 100, lacpRate: 'fast', hashPolicy: 'layer2+3' },
  })
  const given = await ok('POST', '/api/v1/bonds', { id: 'lan', name: 'bond1', mode: 'active-backup', mtu: 9000 })
  t.match(given, { bond: { id: 'lan', mtu: 9000 } })
  t.match(await ok('GET', '/api/v1/bonds'), { bonds: [bond, { id: 'lan' }] })
  t.same(await ok('GET', `/api/v1/bonds/${id}`), { bond })
  t.same(await ok('DELETE', `/api/v1/bonds/${id}`), { status: 'deleted', id })
  for (const [method, path] of [
    ['GET', `/api/v1/bonds/${id}`],
    ['DELETE', `/api/v1/bonds/${id}`],
  ] as const) {
    const gone = await call(method, path)
    t.same([gone.status, gone.body], [404, { error: `bond ${id} not found` }])
  }
  t.same(events(), ['bond.created', 'bond.created', 'bond.deleted'])
})

t.test('bond-03 D7 D8 D16 D20 what cannot be is refused', async (t) => {
  const { call, ok } = await bonds(t, { config: { max_bonds: '2' } })
  const refused = async (body: object, error: string | RegExp) => {
    const answer = await call('POST', '/api/v1/bonds', body)
    t.match([answer.status, answer.body.error], [400, error], JSON.stringify(body))
  }
  await refused({ mode: 'active-backup' }, 'name is required')
  await refused({ name: 'bond0' }, 'mode is required')
  for (const mode of ['balance-rr', '', 1, '802.3AD']) await refused({ name: 'bond0', mode }, /^mode: /)
  for (const name of ['', 'sixteen-letters-', 'a/b', '..', 7]) await refused({ name, mode: '802.3ad' }, /^name: /)
  for (const mtu of [575, 9217, 1500.5, '1500']) await refused({ ...LAN, mtu }, /^mtu: /)
  for (const id of ['', 'pools', 'quotas', 'default', 'batch', '-x', 'a b', 'x'.repeat(65)]) {
    await refused({ ...LAN, id }, /^id: /)
  }
  await ok('POST', '/api/v1/bonds', LAN)
  await ok('POST', '/api/v1/bridges', { name: 'br-lab' })
  const conflict = async (path: string, body: object, error: string) => {
    const answer = await call('POST', path, body)
    t.same([answer.status, answer.body], [409, { error }], JSON.stringify(body))
  }
  await conflict('/api/v1/bonds', { ...LAN, name: 'bond1' }, `bond with id ${LAN.id} already exists`)
  await conflict('/api/v1/bonds', { ...LAN, id: 'wan' }, `bond ${LAN.name} already exists`)
  await conflict('/api/v1/bonds', { ...LAN, id: 'wan', name: 'br-lab' }, 'br-lab is a bridge')
  await conflict('/api/v1/bridges', { name: 'bond0' }, 'bond0 is a bond')
  await ok('POST', '/api/v1/bonds', { ...LAN, id: 'wan', name: 'bond1' })
  await conflict('/api/v1/bonds', { ...LAN, id: 'x', name: 'bond2' }, 'limit reached: bonds (2)')
})

t.test('bond-06 bond-07 members come and go', async (t) => {
  const { call, ok, plane, events } = await bonds(t)
  await ok('POST', '/api/v1/bonds', LAN)
  const members = '/api/v1/bonds/lan/members'
  const add = (name: unknown, query = '') => call('POST', `${members}${query}`, { interface: name })
  t.same((await add('eth1')).body, { status: 'added', id: 'lan', interface: 'eth1' })
  t.same((await add('eth1')).status, 200, 'again')
  await add('eth2')
  t.match(plane.entries.get('l2/member/eth1'), { bridge: 'bond0', releaseUp: true })
  t.notMatch(plane.entries.get('l2/member/eth2'), { releaseUp: true }, 'was down')
  for (const name of [undefined, '', 'gone0', 'lo', 'br-work', 'bond9'])
    t.equal((await add(name)).status, 400, String(name))
  t.same((await add('tap1')).body, { error: 'tap1 is a port of br-work' })
  t.same((await add('tap1', '?force=1')).status, 409, 'whoever insists')
  for (const [name, error] of [
    ['eth0', /the node's uplink/],
    ['eth3', /192\.0\.2\.8\/24/],
  ] as const) {
    t.match(await add(name), { status: 409, body: { error } })
    t.equal((await add(name, '?force=1')).status, 200)
  }
  t.equal((await add('eth1', '?force=yes')).status, 400)
  t.same((await call('POST', '/api/v1/bonds/nope/members', { interface: 'eth1' })).body, {
    error: 'bond nope not found',
  })
  const bridged = await call('POST', '/api/v1/bridges/br-work/ports', { interface: 'eth1' })
  t.same([bridged.status, bridged.body], [409, { error: 'eth1 is a port of bond0' }])
  await ok('POST', '/api/v1/bonds', { ...LAN, id: 'wan', name: 'bond1' })
  const elsewhere = await call('POST', '/api/v1/bonds/wan/members', { interface: 'eth1' })
  t.same([elsewhere.status, elsewhere.body], [409, { error: 'eth1 is a port of bond0' }])
  t.same(await ok('DELETE', `${members}/eth1`), { status: 'removed', id: 'lan', interface: 'eth1' })
  t.equal(plane.entries.has('l2/member/eth1'), false)
  for (const path of [`${members}/eth1`, '/api/v1/bonds/nope/members/eth2', '/api/v1/bonds/wan/members/eth2']) {
    t.equal((await call('DELETE', path)).status, 404, path)
  }
  t.same(
    events().filter((type) => type.startsWith('bond_member')),
    [...Array(5).fill('bond_member.added'), 'bond_member.removed'],
  )
})

t.test('bond-08 the MTU is set, and one that a member cannot have is a 400', async (t) => {
  const { call, ok, plane, events } = await bonds(t)
  await ok('POST', '/api/v1/bonds', LAN)
  const set = (body: object) => call('PUT', '/api/v1/bonds/lan/mtu', body)
  t.same((await set({ mtu: 9000 })).body, { status: 'updated', id: 'lan', mtu: 9000 })
  t.match(plane.entries.get('l2/link/bond0'), { mtu: 9000 })
  for (const body of [{}, { mtu: 575 }, { mtu: 9217 }, { mtu: '1500' }, { mtu: null }]) {
    t.equal((await set(body)).status, 400, JSON.stringify(body))
  }
  plane.refuse = new KernelRefusal('interface bond0: Invalid argument')
  t.match(await set({ mtu: 9216 }), { status: 400, body: { error: /the kernel refused the change/ } })
  t.match(await ok('GET', '/api/v1/bonds/lan'), { bond: { mtu: 9000 } }, 'as it was')
  t.equal((await call('PUT', '/api/v1/bonds/nope/mtu', { mtu: 1500 })).status, 404)
  t.same(events(), ['bond.created', 'bond.updated'])
})

t.test('D9 D84 a bond that is in use stays', async (t) => {
  const { call, ok, devices, addresses } = await bonds(t)
  await ok('POST', '/api/v1/bonds', LAN)
  const refused = async (why: string) =>
    t.same((await call('DELETE', '/api/v1/bonds/lan')).body, { error: `bond bond0 is in use: ${why}` })
  devices.push(device(20, 'bond0', { kind: 'bond' }))
  addresses.push(address(20, '2001:db8::1/64'))
  await refused('it has the address 2001:db8::1/64')
  addresses.splice(-1, 1, address(20, 'fe80::20/64'))
  devices.push(device(21, 'v5', { kind: 'vlan', over: 20 }))
  await refused('v5 lies on it')
  devices.pop()
  devices.splice(-1, 1, device(20, 'bond0', { kind: 'bond', master: 5 }))
  await refused('it is a port of br-work')
  devices.pop()
  await ok('POST', '/api/v1/bonds/lan/members', { interface: 'eth1' })
  await ok('DELETE', '/api/v1/bonds/lan')
})

t.test('D49 the last member of a bond that the node may be managed through needs force=1', async (t) => {
  const { call, ok } = await bonds(t, { config: { uplink: 'bond0' } })
  await ok('POST', '/api/v1/bonds', LAN)
  for (const name of ['eth1', 'eth2']) await ok('POST', '/api/v1/bonds/lan/members', { interface: name })
  await ok('DELETE', '/api/v1/bonds/lan/members/eth2')
  const last = await call('DELETE', '/api/v1/bonds/lan/members/eth1')
  t.match([last.status, last.body], [409, { error: /cut you off; force=1 insists/ }])
  await ok('DELETE', '/api/v1/bonds/lan/members/eth1?force=1')
})

t.test('bond-09 D84 state-16 how members stand is told at every GET, and when it changes', async (t) => {
  const up = { carrier: true, active: true }
  const state: BondState = {
    active: 'eth1',
    members: new Map([
      ['eth1', up],
      ['eth2', { carrier: true, active: false }],
      ['eth3', { carrier: false, active: false }],
    ]),
  }
  const { ok, agent } = await bonds(t, { state })
  await ok('POST', '/api/v1/bonds', LAN)
  for (const name of ['eth1', 'eth2', 'eth3']) {
    await ok('POST', '/api/v1/bonds/lan/members?force=1', { interface: name })
  }
  const shown = {
    active_slave: 'eth1',
    members: [
      { interface: 'eth1', state: 'active' },
      { interface: 'eth2', state: 'standby' },
      { interface: 'eth3', state: 'failed' },
    ],
  }
  t.match(await ok('GET', '/api/v1/bonds/lan'), { bond: shown })
  t.match(await ok('GET', '/api/v1/bonds'), { bonds: [shown] })
  const told = new Promise<object>((resolve) => {
    const look = setInterval(() => {
      const [event] = agent.outbox.after(0, 1000).filter(({ type }) => type === 'bond_member.state_changed')
      if (event === undefined) return
      clearInterval(look)
      resolve(event)
    }, 50)
    t.teardown(() => clearInterval(look))
  })
  // It has looked once, which is what it compares with.
  await setTimeout(1500)
  state.members.set('eth2', { carrier: false, active: false })
  t.match(await told, {
    resource: '/api/v1/bonds/lan',
    data: { id: 'lan', interface: 'eth2', from: 'standby', to: 'failed' },
  })
  const lacp = (aggregated: boolean, partner: boolean) => memberState({ ...up, lacp: { aggregated, partner } })
  t.same([lacp(true, true), lacp(false, true), lacp(true, false)], ['active', 'standby', 'failed'])
  t.equal(memberState(undefined), 'failed', 'a device that is away')

  const now = [
    { id: 'lan', interface: 'eth1', state: 'failed' as const },
    { id: 'lan', interface: 'eth2', state: 'active' as const },
    { id: 'lan', interface: 'eth3', state: 'standby' as const },
  ]
  const before = new Map([
    ['lan/eth1', 'active' as const],
    ['lan/eth2', 'active' as const],
  ])
  t.same(
    moves(before, now).map(({ data }) => data),
    [{ id: 'lan', interface: 'eth1', from: 'active', to: 'failed' }],
  )
})

t.test('D1 D84 without the driver all of /bonds is a 503 before any 400, and bridges work', async (t) => {
  const plane = fakePlane()
  const why = 'this kernel cannot make bonds (Unknown device type)'
  const check = () => [
    { name: 'netlink', available: true, detail: 'links' },
    { name: 'bonding', available: false, detail: why },
  ]
  Object.assign(plane, { check })
  const { call } = await buildArea(t, 'l2', { plane })
  const id = '/api/v1/bonds/lan'
  for (const [method, path, body, type] of [
    ['GET', '/api/v1/bonds'],
    ['POST', '/api/v1/bonds', { name: 7 }],
    ['POST', '/api/v1/bonds', LAN, 'text/plain'],
    ['GET', id],
    ['DELETE', id],
    ['POST', `${id}/members`, {}],
    ['DELETE', `${id}/members/eth1`],
    ['PUT', `${id}/mtu`, { mtu: 1 }],
    ['GET', `${id}/unknown`],
  ] as const) {
    const answer = await call(method, path, body, type ? { 'content-type': type } : {})
    t.same([answer.status, answer.body], [503, { error: 'bonding service not available' }], `${method} ${path}`)
    t.equal(answer.headers['stratum-reason'], why)
  }
  const nobody = await call('POST', '/api/v1/bonds', LAN, { authorization: 'Bearer nobody' })
  t.equal(nobody.status, 401, 'the credential comes first')
  t.equal((await call('GET', '/api/v1/bondsman')).status, 404)
  t.equal((await call('GET', '/api/v1/bridges')).status, 200)
  const { acceleration } = (await call('GET', '/api/v1/status')).body as { acceleration: { detail: string } }
  t.match(acceleration.detail, `bonding: off, ${why}`)
})
