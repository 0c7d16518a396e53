/** REST of floating IPs. */
import { hostname } from 'node:os'
import { sql } from 'drizzle-orm'
import t from 'tap'
import { planGate } from '../../../core/licence/plan.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { scratch } from '../../../test/build.ts'
import { fc } from '../../../test/property.ts'
import { queries } from '../queries.ts'
import { FLOAT, floatArea } from './area.ts'

const HERE = hostname()

t.test('float-01 float-02 float-03 float-04 float-05 D87 one is made, listed, read and deleted', async (t) => {
  const { call, held, events, plane } = await floatArea(t)
  t.same((await call('GET', FLOAT)).body, { floating_ips: [] })
  const made = await call('POST', FLOAT, { ip: '2001:DB8:0::20', standby: 'node-b' })
  t.equal(made.status, 201)
  const { id } = made.body.floating_ip as { id: string }
  t.match(id, /^fip-[0-9a-f]{12}$/, 'D7')
  const shown = {
    id,
    ip: '2001:db8::20',
    primary: HERE,
    standby: 'node-b',
    active_host: HERE,
    state: 'active',
  }
  t.match(made.body, { status: 'created', floating_ip: { ...shown, created_at: /^\d{4}-.*Z$/ } })
  t.same(held(), ['float/address/eth0/2001:db8::20/128'])
  t.match(plane.entries.get('float/address/eth0/2001:db8::20/128'), { floating: true, noPrefixRoute: true })
  t.same((await call('GET', FLOAT)).body, { floating_ips: [made.body.floating_ip] })
  const one = await call('GET', `${FLOAT}/${id}`)
  t.same(one.body, made.body.floating_ip)
  t.equal((await call('DELETE', `${FLOAT}/${id}`, undefined, { 'if-match': '"another"' })).status, 412)
  const gone = await call('DELETE', `${FLOAT}/${id}`, undefined, { 'if-match': String(one.headers.etag) })
  t.same([gone.status, gone.body, held()], [200, { status: 'deleted', id }, []])
  for (const [method, other] of [
    ['GET', id],
    ['DELETE', id],
    ['GET', '1'],
    ['DELETE', 'x%00'],
  ] as const) {
    t.equal((await call(method, `${FLOAT}/${other}`)).status, 404, `${method} ${other}`)
  }
  t.same(events(), ['floating_ip.created', 'floating_ip.deleted'])
})

t.test('float-05 ver-03 D87 where another node is primary, nothing of it is here, and it stays there', async (t) => {
  const { call, held } = await floatArea(t)
  const { body } = await call('POST', FLOAT, { ip: '192.0.2.20', primary: 'node-b', standby: HERE })
  const { id } = body.floating_ip as { id: string }
  t.match(body.floating_ip, { primary: 'node-b', standby: HERE, active_host: 'node-b', state: 'standby' })
  t.match((await call('POST', FLOAT, { ip: '192.0.2.21', primary: HERE })).body.floating_ip, { state: 'active' })
  t.same(held(), ['float/address/eth0/192.0.2.21/32'])
  for (const method of ['PUT', 'PATCH', 'POST']) {
    t.equal((await call(method, `${FLOAT}/${id}`, { primary: HERE })).status, 404, `${method}: moving is not available`)
  }
  for (const path of ['move', 'failover', 'failback'])
    t.equal((await call('POST', `${FLOAT}/${id}/${path}`)).status, 404)
})

t.test('float-02 what is no address of a host is a 400 that names the field', async (t) => {
  const { call, held, events } = await floatArea(t)
  const bad: [object, RegExp][] = [
    [{}, /ip/],
    [{ ip: '' }, /^ip: must be the address of a host/],
    [{ ip: 7 }, /ip/],
    ...[
      'nowhere',
      '192.0.2.0/24',
      '192.0.2.1/32',
      '0.0.0.0',
      '127.0.0.1',
      '224.0.0.1',
      '::1',
      'ff02::1',
      'fe80::1%eth0',
    ].map((ip): [object, RegExp] => [{ ip }, /^ip: must be the address of a host/]),
    [{ ip: '192.0.2.1', primary: 'a b' }, /primary/],
    [{ ip: '192.0.2.1', standby: 'x'.repeat(65) }, /standby/],
    [{ ip: '192.0.2.1', standby: HERE }, /standby: must be another node than primary/],
    [{ ip: '192.0.2.1', primary: 'b', standby: 'b' }, /standby: must be another node than primary/],
  ]
  for (const [body, why] of bad) {
    const answer = await call('POST', FLOAT, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, why)
  }
  await fc.assert(
    fc.asyncProperty(
      fc.record({ ip: fc.oneof(fc.string(), fc.jsonValue()), primary: fc.string(), standby: fc.string() }),
      async (body) => {
        const { status } = await call('POST', FLOAT, body)
        if (status !== 400) throw new Error(`${JSON.stringify(body)}: ${status}`)
      },
    ),
    { numRuns: 200 },
  )
  t.same([held(), events()], [[], []])
})

t.test('an address can be one thing only, and no more than the limit', async (t) => {
  const plane = fakePlane()
  const { call, set } = await floatArea(t, { plane, config: { gateway_vip: '192.0.2.10/24', max_floating_ips: '2' } })
  const refused = async (ip: string, why: string) => {
    const { status, body } = await call('POST', FLOAT, { ip })
    t.same([status, body.error], [409, why])
  }
  await call('POST', FLOAT, { ip: '192.0.2.20' })
  await refused('192.0.2.20', 'floating IP 192.0.2.20 already exists')
  await refused('192.0.2.10', '192.0.2.10 is the VIP of the gateway (gateway_vip)')
  plane.devices.useOf = async () => 'local'
  await refused('192.0.2.1', '192.0.2.1 is in use on this node already (local): take it away first')
  plane.devices.useOf = async () => 'broadcast'
  await refused('192.0.2.255', '192.0.2.255 is in use on this node already (broadcast): take it away first')
  plane.devices.useOf = async () => undefined
  await call('POST', FLOAT, { ip: '192.0.2.21' })
  await refused('192.0.2.22', 'limit reached: floating IPs (2)')
  await set({ max_floating_ips: '3' })
  t.equal((await call('POST', FLOAT, { ip: '192.0.2.22' })).status, 201)
  const metrics = (await call('GET', '/api/v1/metrics')).text
  t.match(metrics, /stratum_float_addresses 3\n[\s\S]*_limit 3\n[\s\S]*_active 3\n[\s\S]*_waiting 0\n/)
})

t.test("D87 one that gateway_vip names later is the gateway's to put on, and comes back", async (t) => {
  const { call, set, held } = await floatArea(t)
  await call('POST', FLOAT, { ip: '192.0.2.20' })
  await call('POST', FLOAT, { ip: '192.0.2.21' })
  const [own, other] = ['float/address/eth0/192.0.2.20/32', 'float/address/eth0/192.0.2.21/32']
  await set({ gateway_vip: '192.0.2.20' })
  t.same(held(), [other, 'gateway/address/eth0/192.0.2.20/32'])
  await call('POST', '/api/v1/gateway/failover')
  t.same(held(), [other], 'it is not put on in the place of the gateway')
  const listed = (await call('GET', FLOAT)).body.floating_ips as { state: string }[]
  t.same(
    listed.map(({ state }) => state),
    ['active', 'active'],
  )
  await set({ gateway_vip: '' })
  t.same(held(), [own, other])
})

t.test('float-06 float-07 they outlive the agent and follow the uplink', async (t) => {
  const [stateDir, plane] = [scratch(t), fakePlane()]
  const first = await floatArea(t, { stateDir, plane })
  await first.call('POST', FLOAT, { ip: '192.0.2.20' })
  await first.call('POST', FLOAT, { ip: '192.0.2.21', primary: 'node-b' })
  const list = (await first.call('GET', FLOAT)).body
  await first.set({ uplink: 'eth1' })
  t.same(first.held(), ['float/address/eth1/192.0.2.20/32'])
  await first.set({ uplink: '' })
  t.same(first.held(), ['float/address/eth1/192.0.2.20/32'], 'no uplink is known: it stays')
  const third = await first.call('POST', FLOAT, { ip: '192.0.2.22' })
  t.equal(third.status, 201, 'and others join it')
  await first.agent.close()
  plane.entries.clear()
  const second = await floatArea(t, { stateDir, plane, config: { uplink: '' } })
  t.same(second.held(), ['float/address/eth1/192.0.2.20/32', 'float/address/eth1/192.0.2.22/32'], 'after a boot too')
  t.equal((await second.call('DELETE', `${FLOAT}/${(third.body.floating_ip as { id: string }).id}`)).status, 200)
  t.same((await second.call('GET', FLOAT)).body, list)
})

t.test('float-08 gate-07 floating IPs need no feature of the plan, the gateway does', async (t) => {
  const { call } = await floatArea(t, { licensed: false })
  for (const method of ['GET', 'POST', 'DELETE']) {
    t.same([planGate(method, '/float'), planGate(method, '/float/1')], [undefined, undefined])
  }
  t.same((await call('GET', FLOAT)).body, { floating_ips: [] })
  t.match(await call('GET', '/api/v1/gateway/status'), { status: 403, body: { error: /Gateway HA/ } })
  // Without any licence nothing can be changed; that is said of the licence, not of a feature.
  const { status, body } = await call('POST', FLOAT, { ip: '192.0.2.20' })
  t.equal(status, 403)
  t.notMatch(body.error, /Gateway HA/)
})

t.test('what a change costs does not depend on how many there are', async (t) => {
  const { agent } = await floatArea(t)
  const db = agent.store.read
  // Read everything on purpose: one row, pages of all, or what is counted before an addition.
  const whole = new Set(['place', 'count'])
  for (const [name, statement] of Object.entries(queries(db))) {
    const text = statement.getQuery().sql.replaceAll('?', '1')
    const rows = db.all<{ detail: string }>(sql.raw(`explain query plan ${text}`))
    const plan = rows.map(({ detail }) => detail).join('; ')
    t.notMatch(plan, /TEMP B-TREE/, `${name}: ${plan}`)
    if (!whole.has(name)) t.notMatch(plan, /\bSCAN /, `${name}: ${plan}`)
  }
})

t.test('a node that never had an uplink says so', async (t) => {
  const { call, held } = await floatArea(t, { config: { uplink: '' } })
  const refused = await call('POST', FLOAT, { ip: '192.0.2.20' })
  t.equal(refused.status, 409)
  t.match(refused.body.error, /no uplink, name one in uplink/)
  t.equal((await call('POST', FLOAT, { ip: '192.0.2.20', primary: 'node-b' })).status, 201)
  t.same(held(), [])
})

t.test('what the kernel refuses was never so', async (t) => {
  const { call, held, events, plane } = await floatArea(t)
  plane.refuse = new KernelRefusal('made up')
  const made = await call('POST', FLOAT, { ip: '192.0.2.20' })
  t.equal(made.status, 409)
  t.match(made.body.error, /made up/)
  t.same([(await call('GET', FLOAT)).body, held(), events()], [{ floating_ips: [] }, [], []])
  const { body } = await call('POST', FLOAT, { ip: '192.0.2.20' })
  plane.refuse = new KernelRefusal('made up')
  t.equal((await call('DELETE', `${FLOAT}/${(body.floating_ip as { id: string }).id}`)).status, 409)
  t.same(held(), ['float/address/eth0/192.0.2.20/32'])
})
