/** Port forwards and source NAT over REST, over a plane in memory. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { FORWARD, nat, SNAT } from './area.ts'

const INPUT = { dest_ip: '192.0.2.1', dest_port: 80, target_ip: '10.0.0.5', target_port: 8080 }

t.test('fwd-01 fwd-02 fwd-04 fwd-05 a forward is made, shown, listed and deleted', async (t) => {
  const { call, elements, events } = await nat(t)
  t.same((await call('GET', FORWARD)).body, { port_forwards: [] })
  const created = await call('POST', FORWARD, INPUT)
  const forward = { id: 1, ...INPUT }
  t.same([created.status, created.body], [201, { status: 'created', port_forward: forward }])
  t.same(elements(), ['nat_forward4 192.0.2.1 . 80 : 10.0.0.5 . 8080', 'nat_public4 192.0.2.1 . 80'])
  const one = await call('GET', `${FORWARD}/1`)
  t.same([one.status, one.body], [200, { port_forward: forward }])
  t.same((await call('GET', FORWARD)).body, { port_forwards: [forward] })
  const stale = await call('DELETE', `${FORWARD}/1`, undefined, { 'if-match': '"other"' })
  t.equal(stale.status, 412)
  const deleted = await call('DELETE', `${FORWARD}/1`, undefined, { 'if-match': String(one.headers.etag) })
  t.same([deleted.status, deleted.body], [200, { status: 'deleted', id: 1 }])
  t.same(elements(), [])
  for (const method of ['GET', 'DELETE']) {
    for (const id of ['1', '2', '0', 'x', '01', '-1']) {
      t.equal((await call(method, `${FORWARD}/${id}`)).status, 404, `${method} ${id}`)
    }
  }
  t.same(events(), ['forward.created', 'forward.deleted'])
})

t.test('fwd-02 addresses are stored as the kernel spells them, each family in its own map', async (t) => {
  const { forward, elements } = await nat(t)
  const made = await forward('2001:DB8:0:0::1', 53, 'FD00::0:5', 5353)
  t.same([made.dest_ip, made.target_ip], ['2001:db8::1', 'fd00::5'])
  t.same(elements(), ['nat_forward6 2001:db8::1 . 53 : fd00::5 . 5353', 'nat_public6 2001:db8::1 . 53'])
})

t.test('fwd-03 D61 what is missing, unreadable or of two families is refused, by field', async (t) => {
  const { call, unchanged } = await nat(t)
  const refused = async (body: object, error: RegExp) => {
    const answer = await unchanged(() => call('POST', FORWARD, body))
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  for (const field of Object.keys(INPUT))
    await refused({ ...INPUT, [field]: undefined }, new RegExp(`^${field} is req`))
  for (const field of ['dest_port', 'target_port']) {
    for (const port of [0, -1, 65_536, 1.5, '80', null]) await refused({ ...INPUT, [field]: port }, new RegExp(field))
  }
  const unfit = ['', 'x', '10.0.0.1/32', '10.1', '010.0.0.1', '0.0.0.0', '127.0.0.1', '224.0.0.1', '255.255.255.255']
  const unfit6 = ['::', '::1', '::ffff:10.0.0.1', '::10.0.0.1', 'fe80::1', 'fe80::1%eth0', 'ff02::1', '2001:db8::/64']
  for (const field of ['dest_ip', 'target_ip']) {
    for (const text of [...unfit, ...unfit6, 'localhost', 5]) {
      await refused({ ...INPUT, [field]: text }, new RegExp(`^${field}`))
    }
  }
  await refused({ ...INPUT, target_ip: '2001:db8::1' }, /same address family/)
  await refused({ ...INPUT, target_ip: INPUT.dest_ip, target_port: 80 }, /destination itself/)
})

t.test('D61 D8 one forward for a public address and port', async (t) => {
  const { call, forward, unchanged } = await nat(t)
  await forward('2001:db8::1', 80, 'fd00::1', 80)
  const body = { dest_ip: '2001:db8:0::1', dest_port: 80, target_ip: 'fd00::2', target_port: 81 }
  const taken = await unchanged(() => call('POST', FORWARD, body))
  t.same([taken.status, taken.body], [409, { error: 'port forward of 2001:db8::1 port 80 already exists' }])
  await forward('2001:db8::1', 81, 'fd00::1', 80)
  await forward('2001:db8::2', 80, 'fd00::1', 80)
})

t.test(
  'fwd-06 fwd-07 fwd-01 gw-07 gw-08 gw-09 both kinds share ids and one list, and keep their own paths',
  async (t) => {
    const { call, forward, snat, forwards, rules } = await nat(t)
    t.same(await rules(), [])
    const [first, second] = [await forward('192.0.2.1', 80, '10.0.0.5', 8080), await snat('10.0.0.0/24', 'eth0')]
    const third = await forward('192.0.2.1', 81, '10.0.0.5', 8080)
    t.same([first.id, second.id, third.id], [1, 2, 3])
    const shown = { type: 'port_forward', source_ip: '10.0.0.5', source_port: 8080, dest_ip: '192.0.2.1' }
    t.same(await rules(), [
      { id: 1, ...shown, dest_port: 80 },
      { id: 2, type: 'snat', source_ip: '10.0.0.0/24', interface: 'eth0' },
      { id: 3, ...shown, dest_port: 81 },
    ])
    t.same(
      (await forwards()).map(({ id }) => id),
      [1, 3],
    )
    t.equal((await call('GET', `${FORWARD}/2`)).status, 404)
    t.equal((await call('DELETE', `${FORWARD}/2`)).status, 404)
    t.equal((await call('DELETE', `${SNAT}/1`)).status, 404)
    t.equal((await rules()).length, 3)
    t.equal((await call('DELETE', `${FORWARD}/3`)).status, 200)
    t.equal((await snat('10.1.0.0/24', 'eth0')).id, 4, 'no id comes twice')
  },
)

t.test('gw-10 gw-11 gw-13 D5 source NAT is made under either name and deleted', async (t) => {
  const { call, elements, events } = await nat(t)
  const rule = { type: 'snat', source_ip: '10.0.0.0/24', interface: 'eth1' }
  const created = await call('POST', SNAT, { source_cidr: '10.0.0.0/24', interface: 'eth1' })
  t.same([created.status, created.body], [201, { status: 'created', rule: { id: 1, ...rule } }])
  t.same(elements(), ['nat_snat4 "eth1" . 10.0.0.0/24'])
  t.same((await call('DELETE', `${SNAT}/1`)).body, { status: 'deleted', id: 1 })
  t.same(elements(), [])
  t.equal((await call('DELETE', `${SNAT}/1`)).status, 404)
  const aliases = await call('POST', SNAT, { source: '10.0.0.0/24', wan: 'eth1' })
  t.same([aliases.status, aliases.body], [201, { status: 'created', rule: { id: 2, ...rule } }])
  const agreeing = { source: 'fd00::/64', source_cidr: 'fd00::/64', wan: 'eth1', interface: 'eth1' }
  t.match(await call('POST', SNAT, agreeing), { status: 201, body: { rule: { source_ip: 'fd00::/64' } } })
  t.same(events(), ['snat.created', 'snat.deleted', 'snat.created', 'snat.created'])
})

t.test('D62 the device is the uplink unless named, and without an uplink it must be', async (t) => {
  const { snat, elements } = await nat(t)
  t.equal((await snat('10.0.0.0/24')).interface, 'away0')
  t.same(elements(), ['nat_snat4 "away0" . 10.0.0.0/24'])
  const alone = await nat(t, { config: { uplink: '' } })
  for (const body of [{}, { interface: '' }]) {
    const answer = await alone.call('POST', SNAT, { source_cidr: '10.0.0.0/24', ...body })
    t.equal(answer.status, 400)
    t.match(answer.body.error, /^interface: this node has no uplink/)
  }
  t.equal((await alone.snat('10.0.0.0/24', 'eth0')).interface, 'eth0')
})

t.test('gw-12 D62 what cannot be read or contradicts itself is refused', async (t) => {
  const { call, unchanged } = await nat(t)
  const table: [object, RegExp][] = [
    [{}, /^source_cidr is required/],
    [{ interface: 'eth0' }, /^source_cidr is required/],
    ...[
      '',
      'x',
      '10.0.0.0',
      '10.0.0.0/33',
      '10.0.0.0/-1',
      '10.0.0/24',
      'fd00::/129',
      'fd00::',
      '::ffff:1.2.3.4/128',
    ].map((source_cidr): [object, RegExp] => [{ source_cidr }, /^source_cidr/]),
    [{ source_cidr: 5 }, /source_cidr/],
    [{ source_cidr: '10.0.0.0/24', source: '10.0.1.0/24' }, /^source_cidr, source: .*differ/],
    [{ source_cidr: '10.0.0.0/24', interface: 'eth0', wan: 'eth1' }, /^interface, wan: .*differ/],
    [{ source_cidr: '10.0.0.0/24', interface: 'a b' }, /interface/],
    [{ source_cidr: '10.0.0.0/24', interface: 'sixteen-letters0' }, /interface/],
  ]
  for (const [body, error] of table) {
    const answer = await unchanged(() => call('POST', SNAT, body))
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
})

t.test('D19 host bits are cleared, and one block on one device is one rule', async (t) => {
  const { call, snat } = await nat(t)
  t.equal((await snat('10.0.0.7/24', 'eth0')).source_ip, '10.0.0.0/24')
  const again = await call('POST', SNAT, { source_cidr: '10.0.0.0/24', interface: 'eth0' })
  t.same([again.status, again.body], [409, { error: 'source NAT rule of 10.0.0.0/24 by eth0 already exists' }])
  await snat('10.0.0.0/24', 'eth1')
  t.equal((await snat('10.0.0.7/32', 'eth0')).source_ip, '10.0.0.7/32')
  t.equal((await snat('0.0.0.0/0', 'eth0')).source_ip, '0.0.0.0/0')
  t.equal((await snat('::/0', 'eth0')).source_ip, '::/0')
})

t.test('of blocks in each other on one device the outermost stands for all', async (t) => {
  const { call, snat, elements } = await nat(t)
  await snat('10.0.1.0/24', 'eth0')
  await snat('10.0.2.0/24', 'eth0')
  await snat('10.0.1.0/24', 'eth1')
  const wide = await snat('10.0.0.0/16', 'eth0')
  t.same(elements(), ['nat_snat4 "eth0" . 10.0.0.0/16', 'nat_snat4 "eth1" . 10.0.1.0/24'])
  await snat('10.0.1.128/25', 'eth0')
  t.equal(elements().length, 2)
  await call('DELETE', `${SNAT}/${wide.id}`)
  t.same(
    elements(),
    ['eth0" . 10.0.1.0/24', 'eth0" . 10.0.2.0/24', 'eth1" . 10.0.1.0/24'].map((it) => `nat_snat4 "${it}`),
  )
})

t.test('D20 one limit for both kinds', async (t) => {
  const { call, forward, snat } = await nat(t, { config: { max_nat_rules: '2' } })
  await forward('192.0.2.1', 80, '10.0.0.5', 8080)
  const { id } = await snat('10.0.0.0/24')
  const error = 'limit reached: port forwards and source NAT rules (2)'
  const full = await call('POST', FORWARD, { ...INPUT, dest_port: 81 })
  t.same([full.status, full.body], [409, { error }])
  t.equal((await call('POST', SNAT, { source: '10.1.0.0/24' })).status, 409)
  await call('DELETE', `${SNAT}/${id}`)
  await forward('192.0.2.1', 81, '10.0.0.5', 8080)
})

t.test('err-11 what the kernel refuses leaves no row', async (t) => {
  const { call, plane, rules, elements } = await nat(t)
  plane.refuse = new KernelRefusal('no')
  t.equal((await call('POST', FORWARD, INPUT)).status, 409)
  plane.refuse = new KernelRefusal('no')
  t.equal((await call('POST', SNAT, { source_cidr: '10.0.0.0/24' })).status, 409)
  t.same([await rules(), elements()], [[], []])
})

t.test('gate-07 source NAT is part of the plan, port forwarding is not', async (t) => {
  const { call } = await nat(t, { licensed: false })
  t.match(await call('GET', SNAT), { status: 403, body: { error: /Gateway HA/ } })
  t.equal((await call('GET', FORWARD)).status, 200)
})

t.test('metrics tell how many there are, and how many there may be', async (t) => {
  const { call, forward, snat, agent } = await nat(t)
  await forward('192.0.2.1', 80, '10.0.0.5', 8080)
  await snat('10.0.0.0/24')
  await call('DELETE', `${FORWARD}/1`)
  const text = await agent.metrics.text()
  for (const line of [
    'rules{type="port_forward"} 0',
    'rules{type="snat"} 1',
    'rules_limit 8192',
    'pending_evictions 1',
  ]) {
    t.ok(text.includes(`stratum_nat_${line}\n`), line)
  }
})
