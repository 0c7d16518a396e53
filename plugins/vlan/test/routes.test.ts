/** VLAN policies over REST, over a plane in memory. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { buildArea } from '../../../test/build.ts'

const locked = (plane: { entries: ReadonlyMap<string, unknown> }) => [...plane.entries.keys()].sort()

t.test('vlan-01 vlan-03 vlan-05 state-06 state-07 a VLAN is locked down, shown and cleared', async (t) => {
  const { call, plane } = await buildArea(t, 'vlan')
  t.same((await call('GET', '/api/v1/vlan')).body, { vlans: [] }, 'an empty table')
  const set = await call('POST', '/api/v1/vlan', { vlan_id: 7, allowed: false })
  t.same([set.status, set.body], [201, { status: 'created', vlan: { vlan_id: 7, allowed: false } }])
  t.same(locked(plane), ['vlan/vlan/7'])
  t.same((await call('GET', '/api/v1/vlan')).body, { vlans: [{ vlan_id: 7, allowed: false }] })
  const cleared = await call('DELETE', '/api/v1/vlan/7')
  t.same([cleared.status, cleared.body], [200, { status: 'deleted', vlan_id: 7 }])
  t.same(locked(plane), [])
  t.same((await call('GET', '/api/v1/vlan')).body, { vlans: [] })
})

t.test('D63 lockdown is the default, a row may document that a VLAN is allowed, POST again updates', async (t) => {
  const { call, plane, agent } = await buildArea(t, 'vlan')
  const first = await call('POST', '/api/v1/vlan', { vlan_id: 4094 })
  t.same([first.status, first.body], [201, { status: 'created', vlan: { vlan_id: 4094, allowed: false } }])
  const second = await call('POST', '/api/v1/vlan', { vlan_id: 4094, allowed: true })
  t.same([second.status, second.body], [200, { status: 'updated', vlan: { vlan_id: 4094, allowed: true } }])
  t.same(locked(plane), [], 'allowed has no effect')
  const absent = await call('DELETE', '/api/v1/vlan/1')
  t.same([absent.status, absent.body], [200, { status: 'deleted', vlan_id: 1 }], 'clearing the default succeeds')
  t.same(
    agent.outbox.after(0, 100).flatMap(({ type }) => (type.startsWith('vlan.') ? [type] : [])),
    ['vlan.created', 'vlan.updated', 'vlan.deleted'],
    'one event each',
  )
})

t.test('vlan-04 an id that is missing, out of range or no integer is refused and stores nothing', async (t) => {
  const { call } = await buildArea(t, 'vlan')
  for (const body of [{}, { vlan_id: 0 }, { vlan_id: 4095 }, { vlan_id: 1.5 }, { vlan_id: '7' }, { vlan_id: -1 }]) {
    const { status, body: answer } = await call('POST', '/api/v1/vlan', body)
    t.equal(status, 400, JSON.stringify(body))
    t.match(answer.error, /vlan_id/)
  }
  t.equal((await call('POST', '/api/v1/vlan', { vlan_id: 7, allowed: 'no' })).status, 400)
  for (const id of ['0', '4095', 'x', '1.5', '-1', '07']) {
    t.equal((await call('DELETE', `/api/v1/vlan/${id}`)).status, 400, `DELETE ${id}`)
  }
  t.same((await call('GET', '/api/v1/vlan')).body, { vlans: [] })
})

t.test('err-11 what the kernel refuses leaves no row', async (t) => {
  const { call, plane } = await buildArea(t, 'vlan')
  plane.refuse = new KernelRefusal('no')
  t.equal((await call('POST', '/api/v1/vlan', { vlan_id: 7 })).status, 409)
  t.same((await call('GET', '/api/v1/vlan')).body, { vlans: [] })
})
