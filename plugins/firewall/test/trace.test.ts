/** `rules trace` and the counters over the control socket, in both lanes. */
import t from 'tap'
import { readExposition } from '../../../test/exposition.ts'
import { type Firewall, firewall } from './area.ts'

const TRACE = '/control/v1/firewall/trace'
const ask = (area: Firewall, fields: object) => {
  const query = Object.entries(fields).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return area.control('GET', `${TRACE}?${query.join('&')}`)
}
const FLOW = { src: '10.0.0.1', dst: '192.0.2.1' }

t.test('fw-24 where nft judges every rule is compared, by rank', async (t) => {
  const area = await firewall(t)
  const decide = async (fields: object) => (await ask(area, { ...FLOW, ...fields })).body
  t.match(await decide({ dport: 22 }), { judge: 'nft', decided_by: 'default', action: 'accept' })
  await area.create({ action: 'accept', dest_port: 22, priority: 7, interface: 'eth0' })
  await area.create({ action: 'drop', dest_port: 22, priority: 9 })
  await area.create({ action: 'accept', level: 'flow', source_ip: '10.0.0.0/8' })
  await area.create({ action: 'drop', level: 'mac', mac: '02:00:00:00:00:01' })
  t.match(await decide({ dport: 22 }), { decided_by: 'rule', id: 2, action: 'drop', rank: [0, 9, 2], rule: { id: 2 } })
  t.match(await decide({ dport: 22, iif: 'eth0' }), { id: 1, action: 'accept' })
  t.match(await decide({ dport: 23 }), { id: 3, action: 'accept', rank: [5, 0, 3] })
  t.match(await decide({ dport: 23, mac: '02-00-00-00-00-01' }), { id: 4, action: 'drop' })
  t.match(await decide({ proto: 'udp', sport: 1, dport: 22 }), { id: 2 })
  t.match(await decide({ proto: '47' }), { id: 3 })
  t.match(await decide({ src: 'fd00::1', dst: 'fd00::2', proto: 58 }), { decided_by: 'default' })
  const window = { from: '2001-01-01T00:00:00Z', to: '2001-01-02T00:00:00Z' }
  await area.control('PUT', '/control/v1/firewall/rules/2/schedule', window)
  t.match(await decide({ dport: 22 }), { id: 3 }, 'a rule outside its window decides nothing')
})

t.test('where the classifier judges its tables are asked', async (t) => {
  const area = await firewall(t, { lane: 'classifier' })
  await area.create({ action: 'drop', dest_port: 22 })
  area.plane.judged.verdict = { id: 1, accept: false, probes: 3 }
  const { body } = await ask(area, {
    ...FLOW,
    proto: 'tcp',
    dport: 22,
    sport: 5,
    iif: 'eth0',
    mac: 'AA:00:00:00:00:01',
  })
  t.match(body, { judge: 'classifier', decided_by: 'rule', id: 1, action: 'drop', rank: [0, 0, 1], probes: 3 })
  t.match(body.rule, { id: 1, dest_port: 22 })
  t.match(area.plane.judged.packets, [
    {
      source: '10.0.0.1',
      dest: '192.0.2.1',
      protocol: 6,
      sourcePort: 5,
      destPort: 22,
      interface: 'eth0',
      mac: 'aa:00:00:00:00:01',
    },
  ])
  area.plane.judged.verdict = { accept: false, probes: 4 }
  t.match((await ask(area, FLOW)).body, { decided_by: 'default', action: 'drop', probes: 4 })
})

t.test('D71 what a default deny drops says whether it is spared', async (t) => {
  const area = await firewall(t)
  const spared = async (fields: object) => (await ask(area, { ...FLOW, ...fields })).body.spared
  t.equal(await spared({ dport: 7070 }), undefined, 'nothing is dropped')
  await area.call('PUT', '/api/v1/rules/default', { default_action: 'deny' })
  t.equal(await spared({ dport: 7070 }), 'no', 'that of another node')
  area.plane.devices.useOf = async (address) => (address === FLOW.dst ? 'local' : undefined)
  t.match((await ask(area, { ...FLOW, dport: 7070 })).body, { action: 'accept', decided_by: 'default', spared: 'yes' })
  t.equal(await spared({ dport: 22 }), 'no')
  t.equal(await spared({ proto: 47 }), 'no')
  t.equal(await spared({ iif: 'lo' }), 'yes')
  t.equal(await spared({ proto: 'udp', sport: 67, dport: 68 }), 'yes')
  t.equal(await spared({ proto: 'udp', sport: 67, dport: 68, dst: '192.0.2.2' }), 'no', 'routed to another machine')
  const request = { proto: 'udp', sport: 68, dport: 67, iif: 'br-work' }
  t.equal(await spared(request), 'yes')
  t.match(await spared({ ...request, dst: '192.0.2.2' }), /^when addressed to a gateway/)
  t.match(await spared({ src: 'fd00::1', dst: 'fd00::2', proto: 58 }), /neighbour discovery/)
  await area.control('PUT', '/control/v1/config/api_allowed_ips', { value: '10.0.0.0/8' })
  t.equal(await spared({ dport: 7070 }), 'yes')
  await area.control('PUT', '/control/v1/config/api_allowed_ips', { value: '127.0.0.0/8' })
  t.match(await spared({ dport: 7070 }), /^no/)
  await area.control('PUT', '/control/v1/config/firewall_failsafe', { value: 'off' })
  t.equal(await spared({ iif: 'lo' }), 'no, firewall_failsafe is off')
})

t.test('err-10 a packet that cannot be says why', async (t) => {
  const area = await firewall(t)
  const cases: [object, RegExp][] = [
    [{ src: '10.0.0.0/8' }, /^src: /],
    [{ dst: 'host.example' }, /^dst: /],
    [{ dst: 'fd00::1' }, /^src, dst: /],
    [{ proto: 'gre' }, /^proto: /],
    [{ proto: '256' }, /^proto: /],
    [{ proto: 'constructor' }, /^proto: /],
    [{ src: 'fd00::1', dst: 'fd00::2', proto: 'icmp' }, /^proto: icmp is IPv4 only/],
    [{ proto: 'icmp', dport: 1 }, /^sport, dport: /],
    [{ dport: 65_536 }, /^dport: /],
    [{ sport: '-1' }, /^sport: /],
    [{ iif: 'a/b' }, /^iif: /],
    [{ mac: '02:00' }, /^mac: /],
    [{ dport: '' }, /^dport: /],
  ]
  for (const [fields, error] of cases) {
    const { status, body } = await ask(area, { ...FLOW, ...fields })
    t.equal(status, 400, JSON.stringify(fields))
    t.match(body.error, error)
  }
  t.equal((await area.control('GET', `${TRACE}?src=10.0.0.1`)).status, 400, 'dst is required')
  t.equal((await area.call('GET', `${TRACE}?src=10.0.0.1&dst=10.0.0.2`)).status, 404, 'not over REST')
})

t.test('counters of rules, where the classifier counts', async (t) => {
  const area = await firewall(t, { lane: 'classifier' })
  for (const dest_port of [1, 2]) await area.create({ action: 'drop', dest_port })
  area.plane.judged.hits.set(1, { packets: 3n, bytes: 180n })
  const list = async (query: string) => (await area.control('GET', `/control/v1/firewall/rules${query}`)).body.rules
  t.match(await list('?counters=true'), [{ id: 1, packets: 3, bytes: 180 }, { id: 2 }])
  t.notMatch((await list('?counters=true')) as object[], [{}, { packets: Number }])
  t.notMatch((await list('')) as object[], [{ packets: Number }])
  t.equal((await area.control('GET', '/control/v1/firewall/rules?counters=maybe')).status, 400)
  const shown = await area.call('GET', '/api/v1/rules/1')
  t.notOk('packets' in shown.body, 'REST shows rules as specified')

  const metrics = async () => readExposition((await area.call('GET', '/api/v1/metrics')).text)
  t.same(
    (await metrics()).series('stratum_firewall_rule_packets_total').map(({ labels, value }) => [labels.rule, value]),
    [['1', 3]],
  )
  t.equal((await metrics()).value('stratum_firewall_rule_bytes_total', { rule: '1' }), 180)
  t.equal((await metrics()).value('stratum_firewall_accelerated'), 1)
  await area.control('PUT', '/control/v1/config/firewall_rule_metrics', { value: '1' })
  t.same((await metrics()).series('stratum_firewall_rule_packets_total'), [], 'none of more rules than that')
})

t.test('without the classifier there are no counters, and the answer says why', async (t) => {
  const area = await firewall(t)
  await area.create({ action: 'drop' })
  const { status, body } = await area.control('GET', '/control/v1/firewall/rules?counters=true')
  t.equal(status, 409)
  t.equal(body.error, 'counters need the eBPF classifier, which is off: a plane in memory')
  const metrics = readExposition((await area.call('GET', '/api/v1/metrics')).text)
  t.same(metrics.series('stratum_firewall_rule_packets_total'), [])
  t.equal(metrics.value('stratum_firewall_accelerated'), 0)
})
