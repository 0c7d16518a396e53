/** What the load balancer refuses, and whose addresses its VIPs have. */
import t from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { LB, lbArea } from './area.ts'

const NONE = { vip: 'VIP none not found', backend: 'backend none of VIP web not found' }

t.test('lb-03 lb-04 lb-05 D7 D75 a VIP that cannot be is a 400 that names the field', async (t) => {
  const { call, unchanged } = await lbArea(t)
  const good = { id: 'web', frontend_ip: '192.0.2.10', frontend_port: 80, algorithm: 'maglev' }
  const bad: [object, RegExp][] = [
    [{ id: undefined }, /^id is required$/],
    [{ frontend_ip: undefined }, /^frontend_ip is required$/],
    [{ algorithm: undefined }, /^algorithm is required$/],
    ...['', '-a', '.a', 'a b', 'a/b', 'ä', 'x'.repeat(65), 'pools', 'quotas', 'default', 'batch'].map(
      (id): [object, RegExp] => [{ id }, /^id: /],
    ),
    ...[
      '',
      'x',
      '192.0.2.0/24',
      '0.0.0.0',
      '127.0.0.1',
      '224.0.0.1',
      '255.255.255.255',
      '169.254.0.1',
      '::',
      '::1',
    ].map((frontend_ip): [object, RegExp] => [{ frontend_ip }, /^frontend_ip: must be the address of a host/]),
    ...['fe80::1', 'ff02::1', '::ffff:192.0.2.1', 'fe80::1%eth0'].map((frontend_ip): [object, RegExp] => [
      { frontend_ip },
      /^frontend_ip: must be the address of a host/,
    ]),
    ...['roundrobin', 'Maglev', '', 'random'].map((algorithm): [object, RegExp] => [
      { algorithm },
      /^algorithm: must be round-robin, least-conn, source-hash, weighted, maglev or consistent-hash$/,
    ]),
    ...['sctp', 'TCP', '', 'any'].map((protocol): [object, RegExp] => [{ protocol }, /^protocol: must be tcp or udp/]),
    [{ frontend_port: -1 }, /^frontend_port: /],
    [{ frontend_port: 65_536 }, /^frontend_port: /],
    [{ frontend_port: '80' }, /^frontend_port: /],
    [{ dsr_enabled: 'on' }, /^dsr_enabled: /],
    [{ health_check: 'tcp' }, /^health_check: /],
    [{ health_check: { type: 'icmp' } }, /^health_check.type: must be tcp, http or empty/],
    [{ health_check: { type: 'tcp', interval_sec: 0 } }, /^health_check.interval_sec: /],
    [{ health_check: { type: 'tcp', interval_sec: 1.5 } }, /^health_check.interval_sec: /],
    [{ health_check: { type: 'tcp', threshold: 0 } }, /^health_check.threshold: /],
    [{ health_check: { type: 'tcp', timeout_sec: 5 } }, /^health_check.timeout_sec: 5 must be less than .* 5$/],
    [{ health_check: { type: 'tcp', interval_sec: 2 } }, /^health_check.timeout_sec: 2 must be less than .* 2$/],
    [{ health_check: { type: 'http', http_path: 'x' } }, /^health_check.http_path: must begin with \//],
    [{ health_check: { type: 'http', http_path: '/a b' } }, /^health_check.http_path: /],
    [{ health_check: { type: 'http', http_path: '/#a' } }, /^health_check.http_path: /],
    [
      { health_check: { type: 'tcp' }, frontend_port: 0 },
      /^health_check.type: .* give it a frontend_port or no check$/,
    ],
  ]
  for (const [fields, why] of bad) {
    const answer = await unchanged(() => call('POST', LB, { ...good, ...fields }))
    t.equal(answer.status, 400, JSON.stringify(fields))
    t.match(answer.body.error, why, JSON.stringify(fields))
  }
  // Where nothing is checked, nothing is asked of how.
  t.equal((await call('POST', LB, { ...good, health_check: { type: '', interval_sec: 1 } })).status, 201)
})

t.test('lb-10 lb-11 lb-12 D75 a backend that cannot be, or is not there', async (t) => {
  const { call, add, join, unchanged } = await lbArea(t)
  await add()
  await add({ id: 'all', frontend_port: 0, protocol: 'udp' })
  await add({ id: 'dsr', frontend_port: 443, dsr_enabled: true })
  await join('web', 1)
  const bad: [string, object, RegExp][] = [
    ['web', { ip: '10.0.0.2' }, /^id is required$/],
    ['web', { id: 'b' }, /^ip is required$/],
    ['web', { id: 'a b', ip: '10.0.0.2' }, /^id: /],
    ['web', { id: 'batch', ip: '10.0.0.2' }, /^id: /],
    ['web', { id: 'b', ip: '10.0.0.0/24' }, /^ip: must be the address of a host/],
    ['none', { id: 'b', ip: '127.0.0.1' }, /^ip: must be the address of a host/],
    ['web', { id: 'b', ip: 'fe80::1' }, /^ip: must be the address of a host/],
    [
      'web',
      { id: 'b', ip: '2001:db8::1' },
      /^ip: must be of the same address family as the VIP, which has 192\.0\.2\.10$/,
    ],
    ['web', { id: 'b', ip: '192.0.2.10' }, /^ip: .* the address of the VIP itself$/],
    ['web', { id: 'b', ip: '10.0.0.2', port: 65_536 }, /^port: /],
    ['web', { id: 'b', ip: '10.0.0.2', weight: -1 }, /^weight: /],
    ['web', { id: 'b', ip: '10.0.0.2', weight: 65_536 }, /^weight: /],
    ['all', { id: 'b', ip: '10.0.0.2', port: 80 }, /^port: must be 0, because VIP all takes every port/],
    ['dsr', { id: 'b', ip: '10.0.0.2', port: 80 }, /^port: must be 443, that of VIP dsr: with DSR/],
  ]
  for (const [id, body, why] of bad) {
    const answer = await unchanged(() => call('POST', `${LB}/${id}/backends`, body))
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, why, JSON.stringify(body))
  }
  for (const [method, path, body, error] of [
    ['POST', 'none/backends', { id: 'b', ip: '10.0.0.2' }, NONE.vip],
    ['DELETE', 'none/backends/b1', undefined, NONE.vip],
    ['DELETE', 'web/backends/none', undefined, NONE.backend],
    ['POST', 'none/backends/b1/health', { healthy: true }, NONE.vip],
    ['POST', 'web/backends/none/health', { healthy: true }, NONE.backend],
  ] as const) {
    const answer = await unchanged(() => call(method, `${LB}/${path}`, body))
    t.same([answer.status, answer.body], [404, { error }], `${method} ${path}`)
  }
  for (const body of [{}, { healthy: 'yes' }, { healthy: 1 }, { healthy: null }]) {
    t.equal((await unchanged(() => call('POST', `${LB}/web/backends/b1/health`, body))).status, 400)
  }
  await join('all', 3, { port: 0 })
  await join('dsr', 3, { port: 443 })
  await join('dsr', 4)
  await join('web', 4, { port: 0, weight: 0 })
})

t.test('D8 D20 what is there already or too much is a 409 that changes nothing', async (t) => {
  const { call, add, join, unchanged, set } = await lbArea(t, { config: { max_vips: '3', max_vip_backends: '2' } })
  const refused = async (path: string, body: object, error: string) => {
    const answer = await unchanged(() => call('POST', `${LB}${path}`, body))
    t.same([answer.status, answer.body.error], [409, error])
  }
  const other = { id: 'other', frontend_ip: '192.0.2.10', frontend_port: 80, algorithm: 'weighted' }
  await add()
  await refused('', { ...other, id: 'web', frontend_port: 81 }, 'VIP web already exists')
  await refused('', other, 'VIP web with 192.0.2.10, tcp port 80 already exists')
  await add({ ...other, protocol: 'udp' })
  await add({ ...other, id: 'every', frontend_port: 0 })
  await refused('', { ...other, id: 'more', frontend_port: 82 }, 'limit reached: VIPs (3)')
  await join('web', 1)
  await refused('/web/backends', { id: 'b1', ip: '10.0.0.9' }, 'backend b1 of VIP web already exists')
  await refused(
    '/web/backends',
    { id: 'b9', ip: '10.0.0.1', port: 80 },
    'backend b1 of VIP web with 10.0.0.1, port 80 already exists',
  )
  await join('other', 1)
  await join('web', 9, { ip: '10.0.0.1', port: 81 })
  await refused('/web/backends', { id: 'b3', ip: '10.0.0.3' }, 'limit reached: backends of a VIP (2)')
  await set({ max_vip_backends: '3', max_vips: '4' })
  await join('web', 3)
  t.equal((await call('POST', LB, { ...other, id: 'more', frontend_port: 82 })).status, 201)
  await refused('/web/backends', { id: 'b4', ip: '10.0.0.4' }, 'limit reached: backends of a VIP (3)')
})

t.test('an address is one thing: no VIP is the backend of another, nor the other way round', async (t) => {
  const { call, add, join } = await lbArea(t)
  await add()
  await add({ id: 'two', frontend_ip: '192.0.2.11' })
  await join('web', 1)
  const back = await call('POST', `${LB}/web/backends`, { id: 'x', ip: '192.0.2.11', port: 81 })
  t.same([back.status, back.body.error], [409, '192.0.2.11 is the address of VIP two, which can be no backend'])
  const front = await call('POST', LB, { id: 'y', frontend_ip: '10.0.0.1', algorithm: 'maglev' })
  t.same([front.status, front.body.error], [409, '10.0.0.1 is the address of backend b1 of VIP web'])
})

t.test('lb-02 D75 an address is brought up once for all its VIPs, and left to whoever has it', async (t) => {
  const plane = fakePlane()
  const { call, add, held, set } = await lbArea(t, { plane, config: { gateway_vip: '192.0.2.5/24' } })
  const up = () => held().filter((key) => key.includes('/address/'))
  plane.devices.useOf = async (address) => (up().some((key) => key.includes(`/${address}/`)) ? 'local' : undefined)
  await add()
  await add({ id: 'two', frontend_port: 81 })
  t.same(up(), ['gateway/address/eth0/192.0.2.5/24', 'lb/address/eth0/192.0.2.10/32'])
  t.match(plane.entries.get('lb/address/eth0/192.0.2.10/32'), { floating: true, noPrefixRoute: true })
  await call('DELETE', `${LB}/web`)
  t.same(up().length, 2)
  await call('DELETE', `${LB}/two`)
  t.same(up(), ['gateway/address/eth0/192.0.2.5/24'])
  await add({ id: 'gw', frontend_ip: '192.0.2.5' })
  await call('POST', '/api/v1/float', { ip: '192.0.2.6', primary: 'node-b' })
  await add({ id: 'fl', frontend_ip: '192.0.2.6' })
  t.same(up(), ['gateway/address/eth0/192.0.2.5/24'], 'the gateway and another node have theirs')
  plane.devices.useOf = async () => 'local'
  await add({ id: 'own', frontend_ip: '192.0.2.7' })
  const refused = async (fields: object, why: RegExp) => {
    const answer = await call('POST', LB, { id: 'no', frontend_ip: '192.0.2.7', algorithm: 'maglev', ...fields })
    t.match(answer, { status: 409, body: { error: why } })
  }
  await refused({}, /^192\.0\.2\.7 is an address of this node: name the frontend_port/)
  await refused({ frontend_port: 7070 }, /^port 7070 of 192\.0\.2\.7 is that of the node's own API$/)
  plane.devices.useOf = async () => 'broadcast'
  await refused({ frontend_ip: '192.0.2.255' }, /in use on this node already \(broadcast\): take another address$/)
  t.same(up(), ['gateway/address/eth0/192.0.2.5/24'])
  plane.devices.useOf = async () => undefined
  await add({ id: 'later', frontend_ip: '192.0.2.8' })
  await set({ gateway_vip: '192.0.2.8/24' })
  t.same(up(), ['gateway/address/eth0/192.0.2.8/24'], 'it became that of the gateway')
})

t.test('D75 the address follows the uplink, and is on lo as long as there never was one', async (t) => {
  const { add, held, set, plane } = await lbArea(t, { config: { uplink: '' } })
  await add()
  const up = () => held().filter((key) => key.includes('/address/'))
  t.same(up(), ['lb/address/lo/192.0.2.10/32'])
  t.notOk(
    (plane.entries.get('lb/address/lo/192.0.2.10/32') as { floating?: boolean }).floating,
    'there is nobody to tell',
  )
  await set({ uplink: 'eth1' })
  t.same(up(), ['lb/address/eth1/192.0.2.10/32'])
  await set({ uplink: '' })
  t.same(up(), ['lb/address/eth1/192.0.2.10/32'], 'no uplink is known: it stays')
})

t.test('lb-04 D75 least-conn and direct server return are refused, not replaced, where nft balances', async (t) => {
  const { call, add, unchanged } = await lbArea(t, { plane: fakePlane({ balancer: false }) })
  const refused = async (fields: object, error: string) => {
    const body = { id: 'web', frontend_ip: '192.0.2.10', algorithm: 'maglev', ...fields }
    const answer = await unchanged(() => call('POST', LB, body))
    t.same([answer.status, answer.body.error], [409, error])
  }
  const here = 'needs the eBPF load balancer; here it is a plane in memory'
  await refused({ algorithm: 'least-conn' }, `algorithm: least-conn ${here}`)
  await refused({ dsr_enabled: true }, `dsr_enabled: direct server return ${here}`)
  for (const [at, algorithm] of ['maglev', 'round-robin', 'weighted', 'source-hash', 'consistent-hash'].entries()) {
    await add({ id: algorithm, frontend_port: 80 + at, algorithm })
  }
})
