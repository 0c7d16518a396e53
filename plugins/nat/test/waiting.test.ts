/** What names a device that is not there says so, until the device is. */
import t from 'tap'
import { ofServices, type Told } from '../../../core/cli/doctor/agent.ts'
import { startAgent } from '../../../test/agent.ts'
import { eventually } from '../../../test/cluster.ts'
import { netns, requireRoot } from '../../../test/netns.ts'
import type { NatRule } from '../schemas.ts'
import { FORWARD, SNAT } from './area.ts'

requireRoot(t)
const PENDING = 'waiting for device nope'

t.test('gw-14 a rule for a device that is not there says what it waits for, and doctor says what to do', async (t) => {
  const ns = netns(t, 'w')
  const agent = await startAgent(t, { ns, config: { uplink: 'gone' } })
  const forwarding = (device: string) => ns.run('cat', `/proc/sys/net/ipv4/conf/${device}/forwarding`).trim()
  const rules = async () => (await agent.call('GET', SNAT)).body.nat_rules as NatRule[]
  const troubles = async () => {
    const told = (await agent.call('GET', '/control/v1/services')).body as unknown as Told
    return ofServices(told).filter(({ about }) => about === 'degraded')
  }
  ns.run('ip', 'link', 'add', 'there', 'up', 'type', 'bridge')
  const add = async (source_cidr: string, device: string) => {
    const { status, body } = await agent.call('POST', SNAT, { source_cidr, interface: device })
    t.equal(status, 201)
    return body.rule as NatRule
  }
  t.notOk('pending' in (await add('10.8.0.0/24', 'there')), 'in force')
  t.same(await troubles(), [])
  const four = await add('10.8.0.0/24', 'nope')
  const within = await add('10.8.0.0/25', 'nope')
  const six = await add('fd08::/64', 'nope')
  for (const rule of [four, within, six]) t.equal(rule.pending, PENDING)
  t.same(
    (await rules()).map(({ pending }) => pending),
    [undefined, PENDING, PENDING, PENDING],
  )
  const named = await troubles()
  for (const [at, { id, source_ip }] of [four, six].entries()) {
    t.equal(named[at]?.what, `nat: device nope is not there, which source NAT rule ${id} of ${source_ip} waits for`)
    t.match(named[at]?.remedy, /make that device, or delete the rule: .*snat delete ID/)
  }

  ns.run('ip', 'link', 'add', 'nope', 'up', 'type', 'bridge')
  await eventually('it is in force', async () => (await rules()).every(({ pending }) => pending === undefined))
  t.same([forwarding('nope'), await troubles()], ['1', []])
  ns.run('ip', 'link', 'del', 'nope')
  await eventually('it waits again', async () => (await rules()).filter(({ pending }) => pending).length === 3)

  for (const { id } of [four, within, six]) await agent.call('DELETE', `${SNAT}/${id}`)
  t.same(await troubles(), [], 'nothing waits once it is deleted')

  const forward = { dest_ip: '192.0.2.1', dest_port: 80, target_ip: '10.0.0.5', target_port: 8080 }
  const { status, body } = await agent.call('POST', FORWARD, forward)
  t.match([status, body.pending], [201, 'waiting for device gone'])
  const network = { name: 'lab', cidr: '10.9.0.0/24', gateway: '10.9.0.1' }
  const made = await agent.call('POST', '/api/v1/networks', network)
  t.same([made.status, made.body.pending], [201, undefined], 'without host gateway it needs no uplink')
  const gateway = `/api/v1/networks/${(made.body.network as { id: string }).id}/host-gateway`
  t.equal((await agent.call('PUT', gateway, {})).body.pending, 'waiting for device gone')
  t.match(
    (await troubles()).map(({ what, remedy }) => `${what}; ${remedy}`),
    [/port forward \d+ of 192\.0\.2\.1:80 waits for; .*config set uplink/, /which network lab waits for; .*uplink/],
  )
})
