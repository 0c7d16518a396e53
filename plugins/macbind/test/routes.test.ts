/** MAC bindings over REST, over a plane in memory. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { buildArea } from '../../../test/build.ts'

const MAC = '02:00:00:00:00:0a'

t.test('macbind-01 macbind-02 macbind-03 macbind-07 a binding is made, listed and removed', async (t) => {
  const { call, plane } = await buildArea(t, 'macbind')
  t.same((await call('GET', '/api/v1/macbind')).body, { bindings: [] })
  const made = await call('POST', '/api/v1/macbind', { mac: '02-00-00-00-00-0A' })
  const binding = { id: 1, mac: MAC, port_id: '', vlan_id: 0, mode: 'hard' }
  t.same([made.status, made.body], [201, { status: 'created', binding }], 'hard, every port, any VLAN')
  t.match([...plane.entries.values()], [{ kind: 'macbind', mac: MAC, port: '', vlan: 0, mode: 'hard' }])
  t.same((await call('GET', '/api/v1/macbind')).body, { bindings: [binding] })
  const gone = await call('DELETE', '/api/v1/macbind/02-00-00-00-00-0a')
  t.same([gone.status, gone.body], [200, { status: 'deleted', mac: MAC }])
  t.equal(plane.entries.size, 0, 'enforcement ends')
  t.equal((await call('DELETE', `/api/v1/macbind/${MAC}`)).status, 404)
})

t.test('macbind-06 what is unreadable is refused', async (t) => {
  const { call } = await buildArea(t, 'macbind')
  const bad: object[] = [
    ...[{}, { mac: 7 }, { mac: '' }, { mac: '02:00' }, { mac: '01:00:5e:00:00:01' }, { mac: '00:00:00:00:00:00' }],
    ...[{ mode: 'medium' }, { mode: 1 }, { vlan_id: 4095 }, { vlan_id: -1 }, { port_id: 'a/b' }].map((part) => ({
      mac: MAC,
      ...part,
    })),
  ]
  for (const body of bad) t.equal((await call('POST', '/api/v1/macbind', body)).status, 400, JSON.stringify(body))
  t.equal((await call('DELETE', '/api/v1/macbind/xyz')).status, 400)
  t.same((await call('GET', '/api/v1/macbind')).body, { bindings: [] })
})

t.test('D8 D20 a MAC is bound once, and only so many are', async (t) => {
  const { call } = await buildArea(t, 'macbind', { config: { max_mac_bindings: '1' } })
  const input = { mac: MAC, port_id: 'tap0', vlan_id: 7, mode: 'soft' }
  t.match((await call('POST', '/api/v1/macbind', input)).body, { binding: input })
  const again = await call('POST', '/api/v1/macbind', input)
  t.same([again.status, again.body], [409, { error: `binding of ${MAC} already exists` }])
  const more = await call('POST', '/api/v1/macbind', { mac: '02:00:00:00:00:0b' })
  t.same([more.status, more.body], [409, { error: 'limit reached: MAC bindings (1)' }])
})

t.test('err-11 what the kernel refuses leaves no row', async (t) => {
  const { call, plane } = await buildArea(t, 'macbind')
  plane.refuse = new KernelRefusal('no')
  t.equal((await call('POST', '/api/v1/macbind', { mac: MAC })).status, 409)
  t.same((await call('GET', '/api/v1/macbind')).body, { bindings: [] })
})
