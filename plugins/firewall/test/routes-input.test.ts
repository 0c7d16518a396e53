/** What a rule may be: everything that is accepted, and everything that is refused with 400, on POST and PUT alike. */
import t, { type Test } from 'tap'
import { TOKEN } from '../../../test/build.ts'
import { type Firewall, firewall } from './area.ts'

const shared = await firewall(t)
await shared.create({ action: 'drop', comment: 'stays' })

/** Asserts that every one of `bodies` is refused on POST, on PUT and in a batch, and that nothing changed. */
async function refused(test: Test, bodies: readonly unknown[], says: RegExp, on: Firewall = shared): Promise<void> {
  const before = await on.rules()
  for (const body of bodies) {
    const what = JSON.stringify(body)
    for (const [method, path] of [
      ['POST', '/api/v1/rules'],
      ['PUT', '/api/v1/rules/1'],
    ] as const) {
      const answer = await on.call(method, path, body)
      test.equal(answer.status, 400, `${method} ${what}`)
      test.match(answer.body.error, says, `${method} ${what} says why`)
    }
    const batch = await on.call('POST', '/api/v1/rules/batch', { rules: [body] })
    test.match(batch.body, { status: 'failed', results: [{ code: 400, error: says }] }, `batch ${what}`)
  }
  test.same(await on.rules(), before, 'nothing changed')
  test.equal(on.planned().length, before.length)
}

/** Asserts that each of `cases` is accepted and shown as given: fields → what the rule shows of them. */
async function accepted(test: Test, cases: readonly [object, object][]): Promise<void> {
  for (const [fields, shown] of cases) {
    const rule = await shared.create({ action: 'drop', ...fields })
    const { id, ...rest } = rule
    const plain = { chain: 'prerouting', priority: 0, action: 'drop', stateful: true, level: 'global' }
    test.same(rest, { ...plain, ...shown }, JSON.stringify(fields))
    test.same((await shared.call('GET', `/api/v1/rules/${id}`)).body, rule, 'and read back the same')
    await shared.call('DELETE', `/api/v1/rules/${id}`)
  }
}

const drop = (fields: object) => ({ action: 'drop', ...fields })
const each = (field: string, values: readonly unknown[]) => values.map((value) => drop({ [field]: value }))
const same = (fields: object): [object, object] => [fields, fields]

t.test('fw-04 fw-05 action is required: accept or drop', async (t) => {
  await refused(t, [{}, { priority: 1 }], /^action is required$/)
  await refused(
    t,
    ['reject', 'Accept', 'allow', 'deny', ''].map((action) => ({ action })),
    /action/,
  )
})

t.test('fw-06 fw-15 D10 an unrecognised key is named', async (t) => {
  for (const key of ['id', 'not_enforced', 'not_applied', 'colour', 'Action', 'source_ip ', 'tie', 'schedule', 'a"b']) {
    await refused(t, [drop({ [key]: 1 })], new RegExp(key.trim().replace(/"/g, '\\W')))
  }
})

t.test('fw-07 unreadable addresses', async (t) => {
  const bad = [
    ...[
      'x',
      '1.2.3',
      '1.2.3.4.5',
      '256.1.1.1',
      '1.2.3.4/33',
      '1.2.3.4/',
      '/8',
      '1.2.3.4/-1',
      '1.2.3.4/08',
      '1.2.3.4/8/8',
    ],
    ...['01.2.3.4', '0x7f.0.0.1', '2130706433', '10.0.0.0/255.0.0.0', '10.0.0.1-10.0.0.9', '10.0.0.1,10.0.0.2', '10.*'],
    ...[
      'fd00:::1',
      'fd00::/129',
      'fe80::1%eth0',
      '[fd00::1]',
      'fd00::1::2',
      '12345::',
      ' 10.0.0.1',
      '10.0.0.1 ',
      '1.2.3.4\n',
    ],
    ...['localhost', 'example.org', '10.0.0.1; flush ruleset', '@set', '$var', '"10.0.0.1"', '!= 10.0.0.1', '１.2.3.4'],
  ]
  for (const field of ['source_ip', 'dest_ip']) await refused(t, each(field, bad), new RegExp(field))
})

t.test('fw-08 D13 MACs', async (t) => {
  const bad = ['x', 'aa:bb:cc:dd:ee', 'aa:bb:cc:dd:ee:ff:00', 'aabb.ccdd.eeff', 'aabbccddeeff', 'gg:00:00:00:00:00']
  await refused(
    t,
    each('mac', [...bad, 'aa:bb-cc:dd:ee:ff', 'a:b:c:d:e:f', ' aa:bb:cc:dd:ee:ff', 'aa:bb:cc:dd:ee:ff\n']),
    /mac/,
  )
  const mac = 'aa:bb:cc:dd:ee:0f'
  await accepted(
    t,
    [mac, 'AA:BB:CC:DD:EE:0F', 'aa-bb-cc-dd-ee-0f', 'Aa-bB-Cc-dD-eE-0F'].map((text) => [{ mac: text }, { mac }]),
  )
})

t.test('fw-09 protocols', async (t) => {
  await refused(t, each('protocol', ['sctp', 'icmpv6', 'TCP', 'any', '6', 'ip', 'tcp,udp', ' tcp']), /protocol/)
  await accepted(t, [same({ protocol: 'tcp' }), same({ protocol: 'udp' }), same({ protocol: 'icmp' }), [{}, {}]])
})

t.test('fw-10 fw-21 D19 addresses and CIDRs of one family; host bits are masked', async (t) => {
  const mixed = [
    { source_ip: '10.0.0.1', dest_ip: 'fd00::1' },
    { source_ip: '::/0', dest_ip: '0.0.0.0/0' },
    { source_ip: '10.0.0.1', dest_ip: '::ffff:10.0.0.1' },
  ]
  await refused(t, mixed.map(drop), /family/)
  const texts: [string, string][] = [
    ['10.0.0.1', '10.0.0.1'],
    ['10.0.0.1/32', '10.0.0.1'],
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['192.0.2.129/25', '192.0.2.128/25'],
    ['255.255.255.255/1', '128.0.0.0/1'],
    ['10.0.0.1/0', '0.0.0.0/0'],
    ['fd00:0:0:0:0:0:0:1', 'fd00::1'],
    ['FD00::1/128', 'fd00::1'],
    ['fd00::ffff/112', 'fd00::/112'],
    ['2001:DB8:1:ffff::/49', '2001:db8:1:8000::/49'],
    ['::1/0', '::/0'],
  ]
  for (const field of ['source_ip', 'dest_ip']) {
    await accepted(
      t,
      texts.map(([given, shown]) => [{ [field]: given }, { [field]: shown }]),
    )
  }
  await accepted(t, [same({ source_ip: 'fd00::/8', dest_ip: '2001:db8::1' })])
})

t.test('fw-11 fw-12 icmp is IPv4 only and takes no ports', async (t) => {
  await refused(
    t,
    [drop({ protocol: 'icmp', source_ip: 'fd00::1' }), drop({ protocol: 'icmp', dest_ip: '::/0' })],
    /icmp/,
  )
  const ports = [{ source_port: 1 }, { dest_port: 1 }, { dest_port: 1, dest_port_max: 2 }]
  await refused(
    t,
    ports.map((fields) => drop({ protocol: 'icmp', ...fields })),
    /icmp/,
  )
  await accepted(t, [
    same({ protocol: 'icmp', source_ip: '10.0.0.0/8' }),
    [{ protocol: 'icmp', dest_port: 0 }, { protocol: 'icmp' }],
  ])
})

t.test('fw-13 fw-14 chain is prerouting, stateful is true', async (t) => {
  await refused(t, each('chain', ['input', 'forward', 'output', 'PREROUTING', 'prerouting ']), /chain/)
  await refused(t, [drop({ stateful: false })], /stateful/)
  await accepted(t, [[{ chain: 'prerouting', stateful: true }, {}]])
})

t.test('fw-17 D16 D68 ports', async (t) => {
  for (const field of ['source_port', 'dest_port', 'dest_port_max']) {
    await refused(t, each(field, [-1, 65_536, 1.5, 1e9]), new RegExp(field))
  }
  const bad = [
    { dest_port_max: 5 },
    { dest_port: 0, dest_port_max: 5 },
    { dest_port: 6, dest_port_max: 5 },
    { source_port: 6, dest_port_max: 5 },
  ]
  await refused(t, bad.map(drop), /dest_port_max/)
  await accepted(t, [
    same({ source_port: 1 }),
    same({ source_port: 65_535, dest_port: 65_535 }),
    same({ dest_port: 1, dest_port_max: 65_535 }),
    same({ dest_port: 80, dest_port_max: 80 }),
    [{ dest_port: 80, dest_port_max: 0 }, { dest_port: 80 }],
  ])
})

t.test('fw-22 levels', async (t) => {
  await refused(t, each('level', ['port', 'Global', 'private-network', 'network', '0']), /level/)
  const levels = ['global', 'bridge', 'vlan', 'private_network', 'mac', 'flow']
  await accepted(t, [...levels.map((level) => same({ level })), [{ level: 'interface' }, { level: 'bridge' }]])
})

t.test('D16 priority', async (t) => {
  await refused(t, each('priority', [-1, 1_000_001, 0.5]), /priority/)
  await accepted(t, [same({ priority: 1 }), same({ priority: 1_000_000 }), [{ priority: 0 }, {}]])
})

t.test('D17 D67 interface names and comments', async (t) => {
  const names = ['a'.repeat(16), '.', '..', 'a/b', 'a b', 'a:1', 'eth0\n', 'a"b', 'eth0"; drop; "', '*', 'eth*']
  await refused(t, each('interface', names), /interface/)
  await accepted(
    t,
    ['not-there-yet', 'eth0.100', 'br_work', 'a'.repeat(15), '0'].map((name) => same({ interface: name })),
  )
  await refused(t, each('comment', ['x'.repeat(256), 'a\nb', 'a\tb', '\u0000', '\u001b[31m', '\u007f']), /comment/)
  const comments = [
    'x'.repeat(255),
    'quotes " and \\ and \' and ; }',
    'ünïcode ✓ 防火墙 🔥',
    '"; delete table inet stratum; "',
    ' ',
  ]
  await accepted(
    t,
    comments.map((comment) => same({ comment })),
  )
})

t.test('D10 conv-21 a wrong type is 400, never coerced', async (t) => {
  const wrong: Record<string, readonly unknown[]> = {
    action: [1, null, true, ['drop'], {}],
    priority: ['1', null, true, [1]],
    protocol: [6, null, ['tcp']],
    source_ip: [1, null, ['10.0.0.1'], {}],
    dest_ip: [1, null, false],
    source_port: ['80', null, true, [80]],
    dest_port: ['80', null, true, [80]],
    dest_port_max: ['80', null, true],
    interface: [0, null, ['eth0']],
    mac: [0, null, {}],
    level: [0, null, ['global']],
    comment: [0, null, [], {}],
    chain: [0, null, ['prerouting']],
    stateful: ['true', null, 1, 'false'],
  }
  for (const [field, values] of Object.entries(wrong)) await refused(t, each(field, values), new RegExp(field))
})

t.test('D10 D11 D12 conv-17 conv-18 bodies', async (t) => {
  const { agent } = shared
  const post = async (
    payload: string | undefined,
    type: string | undefined = 'application/json',
    url = '/api/v1/rules',
  ) => {
    const headers = { authorization: `Bearer ${TOKEN}`, ...(type !== '' && { 'content-type': type }) }
    const answer = await agent.app.inject({ method: 'POST', url, headers, ...(payload !== undefined && { payload }) })
    return [answer.statusCode, String(answer.json().error)] as const
  }
  const bodies: [string | undefined, number, RegExp, string?][] = [
    [undefined, 400, /^action is required$/, ''],
    ['', 400, /^action is required$/],
    ['{}', 400, /^action is required$/],
    ['{"action":"drop"', 400, /JSON/],
    ['{"action":"drop"} x', 400, /JSON/],
    ['{"action":"drop","action":"accept"}', 400, /action/],
    ['{"action":"drop","\\u0061ction":"accept"}', 400, /action/],
    ['{"action":"drop","__proto__":{"x":1}}', 400, /./],
    ['{"action":"drop","constructor":1}', 400, /constructor/],
    ['[{"action":"drop"}]', 400, /./],
    ['"drop"', 400, /./],
    ['null', 400, /./],
    ['{"action":"drop"}', 415, /application\/json/, 'text/plain'],
    [`{"action":"drop","comment":"${'x'.repeat(1 << 20)}"}`, 413, /1 MiB/],
  ]
  const before = await shared.rules()
  for (const [payload, status, says, type] of bodies) {
    const [code, error] = await post(payload, type)
    t.equal(code, status, payload?.slice(0, 60) ?? 'no body')
    t.match(error, says)
  }
  t.match(await post(undefined, '', '/api/v1/rules/batch'), [400, /^rules is required$/])
  t.same(await shared.rules(), before)
  t.equal((await post('{"action":"drop"}', 'application/json; charset=utf-8'))[0], 201, 'control: with a charset')
})
