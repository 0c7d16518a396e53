/** Status, failover and failback, and what configuration, restarts and boots make of the role. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { scratch } from '../../../test/build.ts'
import { FAILBACK, FAILOVER, gatewayArea, STATUS, VIP } from './area.ts'

const KEY = `gateway/address/eth0/${VIP}/32`
const PEER = { gateway_peer: '192.0.2.2' }

t.test('gw-01 gw-02 gw-06 ver-02 D85 without a VIP there is a status, and nothing to hand over', async (t) => {
  const { call, held, turns } = await gatewayArea(t)
  const { status, body } = await call('GET', STATUS)
  t.equal(status, 200)
  t.match(body, { uptime: /^\d+s$/ })
  t.same(
    { ...body, uptime: '' },
    {
      local_state: 'standby',
      peer_state: 'solo',
      vip: '',
      uptime: '',
      active_conns: 0,
      peer_addr: '',
      heartbeat: 'not needed',
    },
  )
  for (const path of [FAILOVER, FAILBACK]) {
    const refused = await call('POST', path)
    t.same([refused.status, refused.body.error], [503, 'gateway service not available'])
  }
  t.same([held(), turns()], [[], []])
})

t.test(
  'gw-04 gw-05 D86 D88 without a peer: held from the start, yielded and taken back by order, each as often',
  async (t) => {
    const area = await gatewayArea(t, { config: { gateway_vip: `${VIP}, 2001:db8::10/64` } })
    const both = [KEY, 'gateway/address/eth0/2001:db8::10/64']
    t.same([await area.state(), area.held()], ['active', both.sort()])
    t.match(area.plane.entries.get(KEY), { noPrefixRoute: true, floating: true })
    t.match(area.plane.entries.get('gateway/address/eth0/2001:db8::10/64'), { noPrefixRoute: false, floating: true })
    t.match((await area.call('GET', STATUS)).body, { vip: `${VIP},2001:db8::10/64`, heartbeat: 'not needed' })
    for (const _ of [1, 2]) {
      const { status, body } = await area.call('POST', FAILOVER)
      t.same([status, body, await area.state(), area.held()], [200, { status: 'failover_triggered' }, 'standby', []])
    }
    for (const _ of [1, 2]) {
      const { status, body } = await area.call('POST', FAILBACK)
      t.same([status, body, await area.state(), area.held()], [200, { status: 'failback_triggered' }, 'active', both])
    }
    t.same(area.turns(), ['standby>active', 'active>standby', 'standby>active'], 'one event a change')
  },
)

t.test('gw-03 ver-02 with a peer, which cannot be heard, the node takes the VIP by order alone', async (t) => {
  const area = await gatewayArea(t, { config: { gateway_vip: VIP, ...PEER } })
  t.match((await area.call('GET', STATUS)).body, {
    local_state: 'standby',
    peer_state: 'solo',
    peer_addr: '192.0.2.2',
    heartbeat: 'not running',
  })
  t.notOk('last_heartbeat' in (await area.call('GET', STATUS)).body)
  t.same(area.held(), [])
  await area.set({ gateway_preferred: 'off' })
  const refused = await area.call('POST', FAILBACK)
  t.equal(refused.status, 409)
  t.match(refused.body.error, /not the preferred owner.*set gateway_preferred to on/)
  t.same(area.held(), [])
  await area.set({ gateway_preferred: 'on' })
  t.equal((await area.call('POST', FAILBACK)).status, 200)
  t.same([await area.state(), area.held()], ['active', [KEY]])
  await area.set({ gateway_preferred: 'off' })
  t.equal((await area.call('POST', FAILBACK)).status, 200, 'it has it already')
  t.same(area.held(), [KEY], 'who is not preferred keeps it too')
})

t.test('gw-03 holding is not taking: a peer that is configured later changes nothing', async (t) => {
  const area = await gatewayArea(t, { config: { gateway_vip: VIP } })
  const applied = area.plane.applied
  await area.set(PEER)
  t.same([await area.state(), area.held(), area.plane.applied], ['active', [KEY], applied])
  await area.set({ gateway_vip: '192.0.2.11/24' })
  t.same([await area.state(), area.held()], ['active', ['gateway/address/eth0/192.0.2.11/24']], 'nor does another VIP')
  await area.set({ gateway_vip: '' })
  t.same([await area.state(), area.held()], ['standby', []])
  await area.set({ gateway_vip: VIP })
  t.same([await area.state(), area.held()], ['standby', []], 'who has let go of it is standby')
  await area.set({ gateway_peer: '' })
  t.same([await area.state(), area.held()], ['active', [KEY]], 'without a peer it is held again')
  await area.call('POST', FAILOVER)
  await area.set(PEER)
  await area.set({ gateway_peer: '' })
  t.same([await area.state(), area.held()], ['standby', []], 'unless it was yielded by order')
})

t.test('gw-03 D86 the role outlives the agent; with a peer, holding does not outlive a boot', async (t) => {
  const stateDir = scratch(t)
  const plane = fakePlane()
  const start = (config: Record<string, string> = {}) => gatewayArea(t, { stateDir, plane, config })
  const stop = async (area: Awaited<ReturnType<typeof start>>, boot?: string) => {
    if (boot !== undefined) {
      area.agent.store.write.run(sql`UPDATE gateway_role SET boot = ${boot}`)
      plane.entries.clear()
    }
    await area.agent.close()
  }
  const seen = async (area: Awaited<ReturnType<typeof start>>) => [await area.state(), area.held()]

  let area = await start({ gateway_vip: VIP })
  await stop(area, 'another boot')
  area = await start()
  t.same(await seen(area), ['active', [KEY]], 'without a peer a boot changes nothing')
  await area.set(PEER)
  const applied = plane.applied
  await stop(area)
  area = await start()
  t.same([await seen(area), plane.applied], [['active', [KEY]], applied], 'a restart touches nothing')
  await stop(area, 'another boot')
  area = await start()
  t.same(await seen(area), ['standby', []], 'the peer may have taken over meanwhile')
  t.equal(area.turns().at(-1), 'active>standby')
  await area.call('POST', FAILBACK)
  await area.call('POST', FAILOVER)
  await stop(area)
  area = await start()
  t.same(await seen(area), ['standby', []])
  await area.set({ gateway_peer: '' })
  await stop(area, 'another boot')
  area = await start()
  t.same(await seen(area), ['standby', []], 'an order holds over a boot')
})

t.test('what the kernel refuses was never so', async (t) => {
  const area = await gatewayArea(t, { config: { gateway_vip: VIP } })
  const events = area.turns()
  area.plane.refuse = new KernelRefusal('made up')
  const yielded = await area.call('POST', FAILOVER)
  t.same([yielded.status, await area.state(), area.held(), area.turns()], [409, 'active', [KEY], events])
  await area.call('POST', FAILOVER)
  area.plane.refuse = new KernelRefusal('made up')
  const taken = await area.call('POST', FAILBACK)
  t.same([taken.status, await area.state(), area.held()], [409, 'standby', []])
  t.match(taken.body.error, /made up/)
})

t.test('the VIP is on the uplink or the interface named, and stays while there is none', async (t) => {
  const area = await gatewayArea(t, { config: { gateway_vip: VIP, uplink: '' } })
  t.same(area.held(), [])
  const refused = await area.call('POST', FAILBACK)
  t.equal(refused.status, 409)
  t.match(refused.body.error, /no uplink, name one in gateway_interface/)
  await area.set({ uplink: 'eth0' })
  t.same(area.held(), [KEY])
  await area.set({ uplink: '' })
  t.same(area.held(), [KEY])
  await area.set({ uplink: 'eth1' })
  t.same(area.held(), [`gateway/address/eth1/${VIP}/32`])
  await area.set({ gateway_interface: 'lan0' })
  t.same(area.held(), [`gateway/address/lan0/${VIP}/32`])
  await area.set({ gateway_interface: '' })
  t.same(area.held(), [`gateway/address/eth1/${VIP}/32`])
})

t.test('failback says why the VIP cannot be in force', async (t) => {
  const plane = fakePlane()
  const area = await gatewayArea(t, { plane, config: { gateway_vip: VIP, ...PEER } })
  plane.devices.useOf = async (address) => (address === VIP ? 'local' : undefined)
  const taken = await area.call('POST', FAILBACK)
  t.same([taken.status, taken.body.error], [409, `${VIP} is in use on this node already (local): take it away first`])
  plane.devices.useOf = async () => undefined
  t.equal((await area.call('POST', FAILBACK)).status, 200)
  plane.pending = () => [{ key: KEY, reason: 'interface eth0 does not exist' }]
  const waiting = await area.call('POST', FAILBACK)
  t.same(
    [waiting.status, waiting.body.error],
    [409, 'this node has the VIP, but it is not in force: interface eth0 does not exist'],
  )
  t.match(
    (await area.call('GET', '/api/v1/metrics')).text,
    /stratum_gateway_active 1\n[\s\S]*stratum_gateway_waiting 1\n/,
  )
})

t.test('gw-04 failover says so where somebody else keeps the VIP on this node', async (t) => {
  const plane = fakePlane()
  const other = '192.0.2.11'
  const area = await gatewayArea(t, { plane, config: { gateway_vip: `${VIP},${other}` } })
  // The agent's own is in use on the node as well, as it shall be.
  plane.devices.useOf = async () => 'local'
  plane.pending = () => [{ key: KEY, reason: 'exists and is not ours' }]
  const held = area.held()
  const refused = await area.call('POST', FAILOVER)
  t.same(
    [refused.status, refused.body.error],
    [409, `${VIP} is in use on this node already (local): take it away first`],
  )
  t.same([await area.state(), area.held(), area.turns()], ['active', held, ['standby>active']])
  plane.devices.useOf = async (address) => (address === VIP ? undefined : 'local')
  t.equal((await area.call('POST', FAILOVER)).status, 200, 'one whose interface is away can be yielded')
  t.same([await area.state(), area.held()], ['standby', []])
})
