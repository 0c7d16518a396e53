/** The node as a network's gateway: the setting, and what the kernel is asked for. */
import t from 'tap'
import { probe } from '../../../test/rest/areas.ts'
import type { Network } from '../schemas.ts'
import { networks, P } from './area.ts'

/** No device of the machine that the tests run on: its settings are not theirs to change. */
const UPLINK = { config: { uplink: 'away0' } }
const ADDRESS = 'networks/address/br-work/10.0.0.1/24'
const SNAT = 'networks/networks_snat/10.0.0.0/24'

t.test('net-39 host_gateway without gateway is 400, and nothing is created', async (t) => {
  const { call, unchanged } = await networks(t, UPLINK)
  for (const flag of ['host_gateway', 'snat', 'dhcp']) {
    const body = { name: 'x', cidr: '10.0.0.0/24', [flag]: true }
    const answer = await unchanged(() => call('POST', `${P}/networks`, body))
    t.same([answer.status, String(answer.body.error).split(':')[0]], [400, 'host_gateway'], flag)
  }
})

t.test('net-40 net-44 host_gateway puts the gateway address on the workload bridge', async (t) => {
  const { create, plane, planned } = await networks(t, UPLINK)
  const network = await create({ gateway: '10.0.0.1', host_gateway: true })
  t.same(network.host_gateway, { enabled: true, snat: false, dhcp: false })
  t.match(plane.entries.get(ADDRESS), { kind: 'address', link: 'br-work', address: '10.0.0.1/24' })
  t.match(plane.entries.get('networks/net/1'), { hostGateway: true, cidr: '10.0.0.0/24', gateway: '10.0.0.1' })
  t.same(planned('networks_snat'), [])
})

t.test('net-44 snat implies the host gateway', async (t) => {
  const { create, plane, planned } = await networks(t, UPLINK)
  const network = await create({ gateway: '10.0.0.1', snat: true })
  t.same(network.host_gateway, { enabled: true, snat: true, dhcp: false })
  t.ok(plane.entries.has(ADDRESS))
  t.same(planned('networks_snat'), [SNAT])
  t.same(planned('networks_uplinks'), ['networks/networks_uplinks/"away0"'])
  const chain = plane.entries.get('networks/networks_postrouting')
  t.same(chain?.kind === 'chain' && chain.rules, [
    'oifname @networks_uplinks ip saddr @networks_snat ip daddr != @networks_inside masquerade',
  ])
})

t.test('D62 the node’s own networks and routed addresses are never translated towards', async (t) => {
  const { call, create, addRange, planned } = await networks(t, UPLINK)
  const inside = () => planned('networks_inside').map((key) => key.slice('networks/networks_inside/'.length))
  await create({ cidr: '10.1.0.0/24', tenant_id: 'a' })
  await create({ cidr: '10.1.0.0/24', tenant_id: 'b' })
  await create({ cidr: '10.1.7.0/28', tenant_id: 'c' })
  await create({ cidr: '10.2.0.0/30' })
  await addRange('8.8.4.4')
  t.same(inside(), ['10.1.0.0/24', '10.1.7.0/28', '10.2.0.0/30', '8.8.4.4'])
  const wide = await create({ cidr: '10.1.0.0/16', tenant_id: 'd' })
  t.same(inside(), ['10.1.0.0/16', '10.2.0.0/30', '8.8.4.4'], 'the outermost stands for all')
  await call('DELETE', `${P}/networks/${wide.id}`)
  t.same(inside(), ['10.1.0.0/24', '10.1.7.0/28', '10.2.0.0/30', '8.8.4.4'])
  for (const { id, cidr } of (await call('GET', `${P}/networks`)).body.networks as Network[]) {
    if (cidr === '10.1.0.0/24') await call('DELETE', `${P}/networks/${id}`)
  }
  t.same(inside(), ['10.1.7.0/28', '10.2.0.0/30', '8.8.4.4'])
})

t.test('net-43 net-50 snat on a node without an uplink is 400, and what was stays in force', async (t) => {
  const { agent, call, create, unchanged } = await networks(t)
  t.equal(agent.config.text('uplink'), '')
  const body = { name: 'x', cidr: '10.9.0.0/24', gateway: '10.9.0.1', snat: true }
  const refused = await unchanged(() => call('POST', `${P}/networks`, body))
  t.equal(refused.status, 400)
  t.match(refused.body.error, /^snat: this node has no uplink/)
  const { id } = await create({ gateway: '10.0.0.1', host_gateway: true })
  const put = await unchanged(() => call('PUT', `${P}/networks/${id}/host-gateway`, { snat: true }))
  t.equal(put.status, 400)
  t.match((await call('GET', `${P}/networks/${id}`)).body, {
    network: { host_gateway: { enabled: true, snat: false } },
  })
})

t.test('net-50 dhcp where there is none is 400, and nothing changes', async (t) => {
  const { call, create, unchanged } = await networks(t, UPLINK)
  const body = { name: 'x', cidr: '10.9.0.0/24', gateway: '10.9.0.1', dhcp: true }
  const refused = await unchanged(() => call('POST', `${P}/networks`, body))
  t.same([refused.status, refused.body], [400, { error: 'dhcp: DHCP is not available on this node' }])
  const { id } = await create({ gateway: '10.0.0.1', snat: true })
  const put = await unchanged(() => call('PUT', `${P}/networks/${id}/host-gateway`, { snat: true, dhcp: true }))
  t.equal(put.status, 400)
})

t.test('net-45 net-48 the body is the whole setting', async (t) => {
  const { call, create, events, plane, planned } = await networks(t, UPLINK)
  const network = await create({ gateway: '10.0.0.1' })
  const set = async (body?: object) => {
    const answer = await call('PUT', `${P}/networks/${network.id}/host-gateway`, body)
    t.equal(answer.status, 200)
    return answer.body
  }
  t.notOk(plane.entries.has(ADDRESS))
  events()
  const on = { ...network, host_gateway: { enabled: true, snat: false, dhcp: false } }
  t.same(await set(), { status: 'updated', network: on }, 'without a body the gateway alone')
  t.same(events(), [{ type: 'network.updated', resource: `${P}/networks/${network.id}`, data: on }])
  t.ok(plane.entries.has(ADDRESS))
  t.match(await set({ snat: true }), { network: { host_gateway: { enabled: true, snat: true, dhcp: false } } })
  t.same(planned('networks_snat'), [SNAT])
  t.match(await set({}), { network: { host_gateway: { enabled: true, snat: false, dhcp: false } } })
  t.same(planned('networks_snat'), [], 'what is not asked for is taken away')
  t.ok(plane.entries.has(ADDRESS))
})

t.test(
  'net-46 dhcp can be asked for where an area of that name is on, and goes when it is not asked for',
  async (t) => {
    const { plugin } = probe('dhcp', ['/dhcp'], [])
    const { call, create } = await networks(t, { ...UPLINK, extraAreas: [plugin] })
    const { id, host_gateway } = await create({ gateway: '10.0.0.1', snat: true, dhcp: true })
    t.same(host_gateway, { enabled: true, snat: true, dhcp: true })
    const { body } = await call('PUT', `${P}/networks/${id}/host-gateway`, { snat: true })
    t.match(body, { network: { host_gateway: { enabled: true, snat: true, dhcp: false } } })
    t.same(await call('GET', `${P}/networks/${id}`).then((answer) => answer.body), { network: body.network })
  },
)

t.test('net-49 D5 DELETE gives up everything that the option added', async (t) => {
  const { call, create, planned, plane } = await networks(t, UPLINK)
  const network = await create({ gateway: '10.0.0.1' })
  const before = planned()
  await call('PUT', `${P}/networks/${network.id}/host-gateway`, { snat: true })
  t.not(planned().length, before.length)
  for (const what of ['on', 'off already']) {
    const { status, body } = await call('DELETE', `${P}/networks/${network.id}/host-gateway`)
    t.same([status, body], [200, { status: 'updated', network }], what)
    t.same(planned(), before)
    t.match(plane.entries.get('networks/net/1'), { hostGateway: false })
  }
})

t.test('net-47 net-50 D45 what PUT and DELETE refuse', async (t) => {
  const { call, create, unchanged } = await networks(t, UPLINK)
  const bare = await create({ cidr: '10.0.0.0/24' })
  await create({ name: 'held', cidr: '10.5.0.0/16', gateway: '10.5.0.1', host_gateway: true, tenant_id: 'a' })
  const late = await create({ cidr: '10.5.3.0/24', gateway: '10.5.3.1', tenant_id: 'b' })
  const table: [string, string, unknown, number][] = [
    ['PUT', 'net-000000000000', {}, 404],
    ['DELETE', 'net-000000000000', undefined, 404],
    ['PUT', bare.id, {}, 400],
    ['PUT', bare.id, { snat: true }, 400],
    ['PUT', late.id, {}, 409],
    ['PUT', late.id, { snat: 1 }, 400],
    ['PUT', late.id, { dhcp: 'on' }, 400],
  ]
  for (const [method, id, body, status] of table) {
    const answer = await unchanged(() => call(method, `${P}/networks/${id}/host-gateway`, body))
    t.equal(answer.status, status, `${method} ${JSON.stringify(body)}: ${answer.text}`)
    t.type(answer.body.error, 'string')
  }
})

t.test('the uplink may change while networks leave by it', async (t) => {
  const { agent, create, planned } = await networks(t, UPLINK)
  await create({ gateway: '10.0.0.1', snat: true })
  const set = (uplink: string) => {
    agent.overrides.change((content) => Object.assign(content.config, { uplink }))
    return agent.config.reload()
  }
  await set('away1')
  t.same(planned('networks_uplinks'), ['networks/networks_uplinks/"away1"'])
  await set('')
  t.same(planned('networks_uplinks'), [])
  t.same(planned('networks_snat'), [SNAT])
})
