/** Routes and policy rules on the real kernel: which way packets go. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { ROUTES, RULES } from './area.ts'
import { site, TARGET6, until } from './site.ts'

requireRoot(t)

const NET = '198.51.100.0/24'
const NET6 = '2001:db8:100::/64'
const BY_R1 = { destination: NET, gateway: '10.1.1.2' }
const BY_R2 = { destination: NET, gateway: '10.1.2.2' }

t.test('route-03 route-06 a route by a gateway carries packets until it is deleted', async (t) => {
  const { agent, add, way, kernel, node } = await site(t)
  t.equal(way(), 'none')
  const four = await add(ROUTES, BY_R1)
  t.equal(way(), 'r1')
  const better = await add(ROUTES, { destination: '198.51.100.1/32', gateway: '10.1.2.2', interface: 'up2', metric: 7 })
  t.equal(way(), 'r2', 'the longer prefix wins')
  const six = await add(ROUTES, { destination: NET6, gateway: 'fd01:2::2' })
  t.equal(way([], node, TARGET6), 'r2')
  t.same(kernel().routes, [
    '198.51.100.0/24 via 10.1.1.2 dev up1',
    '198.51.100.1 via 10.1.2.2 dev up2 metric 7',
    '2001:db8:100::/64 via fd01:2::2 dev up2 metric 1024',
  ])
  await agent.call('DELETE', `${ROUTES}/${better}`)
  t.equal(way(), 'r1')
  for (const id of [four, six]) t.equal((await agent.call('DELETE', `${ROUTES}/${id}`)).status, 200)
  t.same([way(), way([], node, TARGET6), kernel().routes], ['none', 'none', []])
})

t.test('route-05 route-08 route-12 route-13 a policy rule chooses the table', async (t) => {
  const { agent, add, way, kernel, node, guest } = await site(t)
  await add(ROUTES, BY_R1)
  await add(ROUTES, { ...BY_R2, table: 100 })
  await add(ROUTES, { destination: NET6, gateway: 'fd01:1::2' })
  await add(ROUTES, { destination: NET6, gateway: 'fd01:2::2', table: 100 })
  const other = ['-I', '10.1.2.1']
  t.same([way(), way(other), way(['-m', '7']), way([], guest)], ['r1', 'r1', 'r1', 'r1'], 'nobody asks table 100')

  const from = await add(RULES, { from: '10.1.2.1/32', table: 100 })
  t.same([way(), way(other)], ['r1', 'r2'], 'from')
  const early = await add(RULES, { from: '10.1.2.0/24', table: 254, priority: 9000 })
  t.equal(way(other), 'r1', 'the lower priority is asked first')
  await agent.call('DELETE', `${RULES}/${early}`)
  t.equal(way(other), 'r2')

  const mark = await add(RULES, { fwmark: 7, table: 100 })
  t.same([way(['-m', '7']), way(['-m', '6']), way(['-m', '263'])], ['r2', 'r1', 'r1'], 'fwmark, all bits of it')
  t.same([way(['-m', '7'], node, TARGET6), way([], node, TARGET6)], ['r2', 'r1'], 'of both families')

  const iif = await add(RULES, { iif: 'cl', table: 100 })
  t.same([way([], guest), way()], ['r2', 'r1'], 'iif')
  const to = await add(RULES, { to: TARGET6.replace('::1', '::/64'), oif: 'up2', table: 100, priority: 5 })
  t.same(kernel().rules, [
    '-4 10000: from 10.1.2.1 lookup 100',
    '-4 10001: from all fwmark 0x7 lookup 100',
    '-4 10002: from all iif cl lookup 100',
    '-6 10001: from all fwmark 0x7 lookup 100',
    '-6 10002: from all iif cl lookup 100',
    '-6 5: from all to 2001:db8:100::/64 oif up2 lookup 100',
  ])
  for (const id of [from, mark, iif, to]) t.equal((await agent.call('DELETE', `${RULES}/${id}`)).status, 200)
  t.same([way(other), way(['-m', '7']), way([], guest), kernel().rules], ['r1', 'r1', 'r1', []])
})

t.test('route-14 routes and rules outlive the agent, and are made again where they are lost', async (t) => {
  const { agent, add, way, kernel, node } = await site(t)
  await add(ROUTES, BY_R1)
  await add(ROUTES, { ...BY_R2, table: 100 })
  await add(RULES, { fwmark: 7, table: 100 })
  const foreign = ['203.0.113.0/24', 'via', '10.1.2.2', 'proto', 'static']
  node.run('ip', 'route', 'add', ...foreign)
  node.run('ip', 'rule', 'add', 'pref', '10000', 'fwmark', '9', 'table', '100')
  const [lists, held] = [await both(), kernel()]
  const repairs = () => agent.logged.filter(({ msg }) => msg === 'kernel brought to the store').length
  const ways = () => [way(), way(['-m', '7']), way(['-m', '9'])]
  t.same(ways(), ['r1', 'r2', 'r2'])

  const repaired = repairs()
  await agent.kill('SIGKILL')
  t.same([ways(), kernel()], [['r1', 'r2', 'r2'], held], 'without an agent')
  await agent.restart()
  t.same([ways(), kernel(), await both()], [['r1', 'r2', 'r2'], held, lists], 'after kill -9')
  t.equal(repairs(), repaired, 'nothing had to be touched')

  await agent.kill()
  for (const table of ['main', '100']) node.run('ip', 'route', 'flush', 'table', table, 'proto', '201')
  node.run('ip', 'rule', 'del', 'pref', '10000', 'fwmark', '7')
  t.same(ways(), ['none', 'none', 'none'])
  await agent.restart()
  t.same([ways(), kernel(), await both()], [['r1', 'r2', 'r2'], held, lists], 'as after a reboot')
  t.match(node.run('ip', 'route'), /203\.0\.113\.0\/24 via 10\.1\.2\.2/, 'what others made is theirs')

  async function both() {
    return [(await agent.call('GET', ROUTES)).body, (await agent.call('GET', RULES)).body]
  }
})

t.test('a route whose device goes away is kept, told, and back with the device', async (t) => {
  const { agent, add, way, kernel, node, plug } = await site(t)
  const by = await add(ROUTES, BY_R2)
  const on = await add(ROUTES, { destination: '203.0.113.0/24', interface: 'up2' })
  await add(ROUTES, { ...BY_R1, metric: 100 })
  t.equal(way(), 'r2')
  const waiting = async () => / (\d+)$/m.exec((await metrics()).match(/^stratum_routes_waiting.*$/m)?.[0] ?? '')?.[1]
  const metrics = async () => (await agent.call('GET', '/api/v1/metrics')).text

  node.run('ip', 'link', 'del', 'up2')
  t.equal(way(), 'r1', 'the next best route carries on')
  await until('both are told to wait', async () => (await waiting()) === '2')
  const { body } = await agent.call('GET', ROUTES)
  t.equal((body.routes as unknown[]).length, 3, 'they are stored')
  await agent.restart()
  t.equal(await waiting(), '2', 'after a restart too')
  t.equal((await agent.call('DELETE', `${ROUTES}/${on}`)).status, 200, 'one that waits can be deleted')

  plug('r2')
  await until('the route is back', () => way() === 'r2')
  t.same(kernel().routes, ['198.51.100.0/24 via 10.1.1.2 dev up1 metric 100', '198.51.100.0/24 via 10.1.2.2 dev up2'])
  await until('nothing waits', async () => (await waiting()) === '0')
  t.equal((await agent.call('DELETE', `${ROUTES}/${by}`)).status, 200)
  t.equal(way(), 'r1')
})

t.test('route-15 err-11 D59 what the kernel refuses is a 400 that says why, and nothing is stored', async (t) => {
  const { agent, node, kernel } = await site(t)
  node.run('ip', 'route', 'add', '203.0.113.0/24', 'via', '10.1.1.2')
  node.run('ip', 'link', 'set', 'cl', 'down')
  const before = [node.run('ip', '-4', 'route', 'show', 'table', 'all'), node.run('ip', 'rule')]
  const cases: [string, object, RegExp][] = [
    [ROUTES, { destination: NET, gateway: '192.0.2.1' }, /Network is unreachable: Nexthop has invalid gateway$/],
    [ROUTES, { destination: NET, interface: 'up9' }, /interface up9 does not exist$/],
    [ROUTES, { destination: NET, gateway: '10.1.1.2', interface: 'up9' }, /interface up9 does not exist$/],
    [ROUTES, { destination: NET, interface: 'cl' }, /Network is down/],
    [ROUTES, { destination: NET6, gateway: 'fe80::1' }, /No route to host|device not specified/],
    [ROUTES, { destination: '203.0.113.0/24', gateway: '10.1.2.2' }, /in the main table exists and is not ours$/],
  ]
  for (const [path, body, why] of cases) {
    const { status, body: answer } = await agent.call('POST', path, body)
    t.equal(status, 400, JSON.stringify(body))
    t.match(answer.error, why)
  }
  t.same((await agent.call('GET', ROUTES)).body, { routes: [] })
  t.same((await agent.call('GET', RULES)).body, { rules: [] })
  t.same(kernel(), { routes: [], rules: [] })
  t.same([node.run('ip', '-4', 'route', 'show', 'table', 'all'), node.run('ip', 'rule')], before)
})
