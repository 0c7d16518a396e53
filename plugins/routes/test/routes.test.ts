/** Routes over REST, over a plane in memory. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { readExposition } from '../../../test/exposition.ts'
import { ROUTES, RULES, routesArea } from './area.ts'

const VIA = { destination: '10.20.0.0/16', gateway: '192.0.2.1' }

t.test('route-01 route-03 route-06 a route is made, shown and removed', async (t) => {
  const { call, routes, held, events } = await routesArea(t)
  t.same(await routes(), [])
  const made = await call('POST', ROUTES, { ...VIA, interface: 'eth0', metric: 50, table: 100 })
  const route = { id: 1, ...VIA, interface: 'eth0', metric: 50, table: 100 }
  t.same([made.status, made.body], [201, { status: 'created', route }])
  t.same(held(), ['routes/route/100/10.20.0.0/16/50'])
  t.same(await routes(), [route])
  const gone = await call('DELETE', `${ROUTES}/1`)
  t.same([gone.status, gone.body], [200, { status: 'deleted', id: 1 }])
  t.same([held(), await routes()], [[], []])
  for (const id of ['1', '0', '-1', '01', 'x', '9'.repeat(30)]) {
    const absent = await call('DELETE', `${ROUTES}/${id}`)
    t.same([absent.status, absent.body], [404, { error: `route ${id} not found` }])
  }
  t.same(events(), ['route.created', 'route.deleted'])
  t.match(await call('POST', ROUTES, VIA), { status: 201, body: { route: { id: 2 } } }, 'ids are not given twice')
})

t.test('route-01 what is not given is empty, and may be given so', async (t) => {
  const { call } = await routesArea(t)
  const none = { gateway: '', interface: '', metric: 0, table: 0 }
  const by = await call('POST', ROUTES, { ...none, destination: '10.1.0.0/16', interface: 'eth0' })
  t.same(by.body.route, { ...none, id: 1, destination: '10.1.0.0/16', interface: 'eth0' })
  const via = await call('POST', ROUTES, { ...none, destination: 'FD00:0:0:1::/64', gateway: 'FE80::0:1' })
  const six = { ...none, id: 2, destination: 'fd00:0:0:1::/64', gateway: 'fe80::1', metric: 1024 }
  t.same(via.body.route, six, 'canonical, with the metric that the kernel gives')
})

t.test('route-02 route-05 D15 ?table= filters, and main is 0', async (t) => {
  const { call, held } = await routesArea(t)
  for (const table of [0, 254, 100, 252, 0xffffffff]) {
    const destination = `10.${table % 251}.0.0/16`
    const { status, body } = await call('POST', ROUTES, { ...VIA, destination, table })
    t.match([status, body], [201, { route: { table: table === 254 ? 0 : table } }])
  }
  t.equal(held().filter((key) => key.startsWith('routes/route/254/')).length, 2)
  const ids = async (query: string) => {
    const { body } = await call('GET', `${ROUTES}?table=${query}`)
    return (body.routes as { id: number }[]).map(({ id }) => id)
  }
  t.same(await ids('0'), [1, 2])
  t.same(await ids('254'), [1, 2])
  t.same(await ids('100'), [3])
  t.same(await ids('4294967295'), [5])
  t.same([await ids('7'), await ids('255')], [[], []])
  for (const bad of ['-1', 'main', '', '1.5', '007', '4294967296', '0x10']) {
    const { status, body } = await call('GET', `${ROUTES}?table=${bad}`)
    t.equal(status, 400, bad)
    t.match(body.error, /^table: /)
  }
})

t.test('a list longer than a page is whole, filtered or not', async (t) => {
  const { agent, call } = await routesArea(t)
  const { routes } = await import('../tables.ts')
  const rows = Array.from({ length: 1203 }, (_, n) => ({
    ...{ destination: `10.${n >> 8}.${n & 255}.0/24`, gateway: '192.0.2.1', interface: '', metric: 0 },
    table: n % 2,
  }))
  agent.store.write.insert(routes).values(rows).run()
  const count = async (query: string) => ((await call('GET', ROUTES + query)).body.routes as unknown[]).length
  t.same([await count(''), await count('?table=0'), await count('?table=1')], [1203, 602, 601])
})

t.test('route-04 route-15 D19 D59 what is no route is refused, says why and stores nothing', async (t) => {
  const { call, routes, events, held } = await routesArea(t)
  const cases: [object, RegExp][] = [
    [{}, /^destination/],
    [{ gateway: '192.0.2.1' }, /^destination is required/],
    [{ ...VIA, destination: '' }, /^destination is required/],
    [{ ...VIA, destination: 7 }, /^destination/],
    [{ ...VIA, destination: 'default' }, /^destination: not a CIDR/],
    [{ ...VIA, destination: '10.0.0.1' }, /^destination: not a CIDR/],
    [{ ...VIA, destination: '10.0.0.0/33' }, /^destination: not a CIDR/],
    [{ ...VIA, destination: '010.0.0.0/8' }, /^destination: not a CIDR/],
    [{ ...VIA, destination: '10.0.0.1/24' }, /^destination: has host bits set: the block is 10\.0\.0\.0\/24$/],
    [{ ...VIA, destination: 'fd00::1/64' }, /^destination: has host bits set: the block is fd00::\/64$/],
    [{ destination: '10.0.0.0/8' }, /^gateway, interface: at least one is required$/],
    [{ ...VIA, gateway: '192.0.2.1/24' }, /^gateway: not an IP address/],
    [{ ...VIA, gateway: 'router' }, /^gateway: not an IP address/],
    [{ ...VIA, gateway: 'fe80::1%eth0' }, /^gateway: not an IP address/],
    [{ ...VIA, gateway: '0.0.0.0' }, /^gateway: 0\.0\.0\.0 is no router's address/],
    [{ ...VIA, gateway: '::' }, /^gateway: :: is no router's address/],
    [{ ...VIA, destination: 'fd00::/64' }, /^gateway: must be IPv6/],
    [{ ...VIA, interface: 'sixteen-letters-' }, /^interface/],
    [{ ...VIA, interface: '../eth0' }, /^interface/],
    [{ ...VIA, metric: -1 }, /^metric/],
    [{ ...VIA, metric: 4294967296 }, /^metric/],
    [{ ...VIA, metric: '5' }, /^metric/],
    [{ ...VIA, table: -1 }, /^table/],
    [{ ...VIA, table: 4294967296 }, /^table/],
    [{ ...VIA, table: 255 }, /^table: 255 is the kernel's own table "local"/],
    [{ ...VIA, table: 253 }, /^table: 253 is the kernel's own table "default"/],
  ]
  for (const [body, why] of cases) {
    const answer = await call('POST', ROUTES, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, why)
  }
  t.same([await routes(), events(), held()], [[], [], []])
})

t.test('D59 a place is taken once: destination, metric and table', async (t) => {
  const { call } = await routesArea(t)
  const status = async (fields: object) => (await call('POST', ROUTES, { ...VIA, ...fields })).status
  t.equal(await status({}), 201)
  const again = await call('POST', ROUTES, { ...VIA, gateway: '192.0.2.2' })
  const error = 'route to 10.20.0.0/16 with metric 0 in the main table already exists'
  t.same([again.status, again.body], [409, { error }])
  t.equal(await status({ table: 254 }), 409)
  t.equal(await status({ metric: 1 }), 201)
  t.equal(await status({ table: 1 }), 201)
  const six = { destination: 'fd00::/64', gateway: 'fe80::1', interface: 'eth0' }
  t.equal(await status(six), 201)
  t.equal(await status({ ...six, metric: 1024 }), 409, 'which it has without one')
  t.equal(await status({ ...six, metric: 1 }), 201)
})

t.test('route-15 err-11 D59 what the kernel refuses is a 400 in its words, and leaves no row', async (t) => {
  const { call, plane, routes, rules, events } = await routesArea(t)
  for (const [path, body] of [[ROUTES, VIA] as const, [RULES, { from: '10.0.0.0/8', table: 7 }] as const]) {
    plane.refuse = new KernelRefusal('Network is unreachable: Nexthop has invalid gateway')
    const { status, body: answer } = await call('POST', path, body)
    const error = 'the kernel refused the change: Network is unreachable: Nexthop has invalid gateway'
    t.same([status, answer], [400, { error }])
  }
  t.same([await routes(), await rules(), events()], [[], [], []])
  await call('POST', ROUTES, VIA)
  plane.refuse = new KernelRefusal('busy')
  t.equal((await call('DELETE', `${ROUTES}/1`)).status, 409, 'a removal asks for nothing that could be wrong')
  t.match(await routes(), [{ id: 1 }])
})

t.test('D20 limits are those of the configuration', async (t) => {
  const { call } = await routesArea(t, { config: { max_routes: '1', max_policy_rules: '1' } })
  await call('POST', ROUTES, VIA)
  await call('POST', RULES, { iif: 'eth0', table: 7 })
  const route = await call('POST', ROUTES, { ...VIA, metric: 1 })
  t.same([route.status, route.body], [409, { error: 'limit reached: routes (1)' }])
  const rule = await call('POST', RULES, { oif: 'eth0', table: 7 })
  t.same([rule.status, rule.body], [409, { error: 'limit reached: policy rules (1)' }])
})

t.test('metrics count what is stored, and what waits', async (t) => {
  const { call, plane } = await routesArea(t)
  await call('POST', ROUTES, VIA)
  await call('POST', ROUTES, { ...VIA, metric: 1 })
  await call('POST', RULES, { iif: 'eth0', table: 7 })
  const reason = 'interface eth0 does not exist'
  plane.pending = () => [
    { key: 'routes/route/254/10.20.0.0/16/0', reason },
    { key: 'l2/member/eth0', reason },
  ]
  const metrics = readExposition((await call('GET', '/api/v1/metrics')).text)
  const values = ['routes', 'routes_limit', 'policy_rules', 'policy_rules_limit', 'waiting']
  t.same(
    values.map((name) => metrics.value(`stratum_routes_${name}`)),
    [2, 32_768, 1, 1024, 1],
  )
})
