/** Reservations: endpoints that are bound to a MAC before any machine has it. */
import t from 'tap'
import { readExposition } from '../../../test/exposition.ts'
import { type DhcpArea, dhcpArea, MAC, OTHER, P, START } from './area.ts'

const machine = (area: DhcpArea, body: object) => area.control('POST', '/control/v1/compute/machines', body)

t.test('dhcp-05 a reservation is made and ended on the node, and serves its MAC at once', async (t) => {
  const area = await dhcpArea(t)
  const id = await area.create()
  t.match(await area.ctl('dhcp reservations'), { code: 0, out: 'no reservations\n' })
  t.match(await area.ctl(`dhcp reserve n1 ${MAC.toUpperCase()} 10.0.0.5`), {
    code: 0,
    out: `10.0.0.5 is reserved for ${MAC}\n`,
  })
  t.match([...area.bindings()], [['1/10.0.0.5', { mac: MAC, net: 1 }]])
  t.match(await area.ctl('dhcp reservations'), {
    out: new RegExp(`^NETWORK.*\\n${id} +10\\.0\\.0\\.5 +${MAC} +- +2030-01-01`),
  })
  t.match(await area.ctl(`dhcp reserve n1 ${MAC} 10.0.0.5`), { code: 0 }, 'twice is once')
  const { endpoints } = await area.ok('GET', `${P}/networks/${id}/endpoints?mac=${MAC}`)
  t.match(endpoints, [{ ip: '10.0.0.5', state: 'bound' }])
  t.match(await area.ctl('dhcp unreserve n1 10.0.0.5'), { code: 0, out: `reservation 10.0.0.5 of ${MAC} ended\n` })
  t.same([area.bindings().size, (await area.ctl('dhcp reservations')).out], [0, 'no reservations\n'])
  t.match(await area.ctl(`dhcp unreserve n1 ${MAC}`), { code: 1, err: /02:00:00:00:00:05 has no reservation/ })
  t.equal((await area.call('POST', `${P}/dhcp/reservations`, {})).status, 404, 'not by REST')
})

t.test('what cannot be reserved is refused, and nothing changes', async (t) => {
  const area = await dhcpArea(t)
  const id = await area.create()
  await area.create({ name: 'plain', cidr: '10.3.0.0/24', gateway: '10.3.0.1', dhcp: false })
  await area.attach(id, '10.0.0.7', OTHER)
  const before = [...area.plane.entries.keys()]
  for (const [line, err] of [
    [`dhcp reserve n1 nonsense 10.0.0.5`, /mac: not a MAC address/],
    [`dhcp reserve n1 03:00:00:00:00:01 10.0.0.5`, /mac: .* multicast/],
    [`dhcp reserve n1 ${MAC} nonsense`, /ip: not an IPv4 address/],
    [`dhcp reserve n1 ${MAC} 10.9.0.5`, /has no endpoint/],
    [`dhcp reserve plain ${MAC} 10.3.0.5`, /network plain is not served over DHCP/],
    [`dhcp reserve n1 ${MAC} 10.3.0.5`, /has no endpoint/],
    [`dhcp reserve n1 ${MAC} 10.0.0.1`, /is the gateway/],
    [`dhcp reserve n1 ${MAC} 10.0.0.7`, /is bound to 02:00:00:00:00:06; detach it first/],
    [`dhcp reserve n1 ${OTHER} 10.0.0.5`, /mac: 02:00:00:00:00:06 is held by endpoint/],
  ] as const)
    t.match(await area.ctl(line), { code: 1, err }, line)
  t.same([...area.plane.entries.keys()], before)
  t.match(await area.ctl('dhcp reservations'), { out: 'no reservations\n' })
})

t.test('a machine with that MAC takes a reservation over, another is refused', async (t) => {
  const area = await dhcpArea(t)
  await area.create()
  await area.ctl(`dhcp reserve n1 ${MAC} 10.0.0.5`)
  const refused = await machine(area, { machine: 'vm', network: 'n1', ip: '10.0.0.5', mac: OTHER })
  t.same(
    [refused.status, refused.body.error],
    [409, `endpoint ep-00010a000005 (10.0.0.5) is bound to ${MAC}; change its MAC, or detach it first`],
  )
  t.equal((await machine(area, { machine: 'web1', network: 'n1', ip: '10.0.0.5', mac: MAC })).status, 200)
  t.match([...area.bindings()], [['1/10.0.0.5', { mac: MAC, hostname: 'web1' }]])
  t.match(await area.ctl('dhcp reservations'), { out: /web1/ })
  t.match(await area.ctl(`dhcp unreserve n1 ${MAC}`), { code: 0 })
  t.equal(area.bindings().size, 1, 'the machine keeps its address')
})

t.test('a detach ends the reservation for good', async (t) => {
  const area = await dhcpArea(t)
  const id = await area.create()
  await area.ctl(`dhcp reserve n1 ${MAC} 10.0.0.5`)
  await area.detach(id, 'ep-00010a000005')
  t.match(await area.ctl('dhcp reservations'), { out: 'no reservations\n' })
  await area.hear({ state: 'revoked', unbound: true, at: START + 1 })
  await area.attach(id, '10.0.0.5')
  t.match(await area.ctl('dhcp reservations'), { out: 'no reservations\n' }, 'an attach does not bring it back')
})

t.test('dhcp-05 another MAC ends the reservation for good, and what is not there is not counted', async (t) => {
  const area = await dhcpArea(t)
  const id = await area.create()
  const counted = async () =>
    readExposition((await area.call('GET', `${P}/metrics`)).text).value('stratum_dhcp_reservations', {})
  const listed = async () => (await area.control('GET', '/control/v1/dhcp/reservations')).body.reservations
  const mac = (mac: string) => area.ok('PUT', `${P}/networks/${id}/endpoints/ep-00010a000005/mac`, { mac })
  await area.ctl(`dhcp reserve n1 ${MAC} 10.0.0.5`)
  await mac(MAC)
  t.match([await listed(), await counted()], [[{ mac: MAC }], 1], 'the same MAC is no other')
  await mac(OTHER)
  t.match([await listed(), await counted()], [[], 0])
  await mac(MAC)
  t.match([await listed(), await counted()], [[], 0])
  t.match([...area.bindings()], [['1/10.0.0.5', { mac: MAC }]], 'bound it is all the while')
  await area.detach(id, 'ep-00010a000005')
  await area.ctl(`dhcp reserve n1 ${MAC} 10.0.0.5`)
  t.equal(await counted(), 1)
  // Nothing else tells of it: no client had asked for a lease.
  await area.detach(id, 'ep-00010a000005')
  await area.attach(id, '10.0.0.5')
  t.match([await listed(), await counted()], [[], 0], 'nor does an attach bring it back')
})

t.test('dhcp-05 what is told late of another MAC does not end a reservation', async (t) => {
  const area = await dhcpArea(t)
  await area.create()
  await area.ctl(`dhcp reserve n1 ${MAC} 10.0.0.5`)
  await area.hear({ state: 'revoked', unbound: true, mac: OTHER })
  t.match(await area.ctl('dhcp reservations'), { out: /10\.0\.0\.5/ })
})
