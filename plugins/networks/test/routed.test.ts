/** Routed public addresses over REST. Who uses them: nics.test.ts. */
import t from 'tap'
import type { Range } from '../schemas.ts'
import { ALWAYS, networks, P } from './area.ts'

const R = `${P}/routed-addresses`

t.test('routed-01 routed-03 routed-04 routed-05 routed-06 ranges and their addresses', async (t) => {
  const { call, events, routed, planned } = await networks(t)
  t.same(await routed(), { gateway: '169.254.0.1', ranges: [], addresses: [] })
  const { status, body } = await call('POST', R, { cidr: '8.8.4.0/30', tenant_id: 'acme', description: 'rack 4' })
  const block = body.range as Range
  t.equal(status, 201)
  t.match(block.id, /^rng-[0-9a-f]{12}$/)
  const fields = { id: block.id, cidr: '8.8.4.0/30', tenant_id: 'acme', size: 4, used: 0, free: 4 }
  t.same(body, { status: 'created', range: { ...fields, description: 'rack 4' } }, 'every address counts')
  t.same(events(), [{ type: 'routed_range.created', resource: `${R}/${block.id}`, data: block }])
  const one = (await call('POST', R, { cidr: '8.8.4.200' })).body.range as Range
  t.match(one, { cidr: '8.8.4.200/32', tenant_id: '', size: 1, used: 0, free: 1 })
  t.equal((await call('POST', R, { cidr: '8.8.4.100/32' })).status, 201)
  const list = await routed()
  t.same(
    list.ranges.map(({ cidr }) => cidr),
    ['8.8.4.0/30', '8.8.4.100/32', '8.8.4.200/32'],
  )
  const address = { range_id: block.id, tenant_id: 'acme', used_by: '', mac: '' }
  t.same(list.addresses[0], { ip: '8.8.4.0', ...address })
  t.same(
    list.addresses.map(({ ip }) => ip),
    ['8.8.4.0', '8.8.4.1', '8.8.4.2', '8.8.4.3', '8.8.4.100', '8.8.4.200'],
  )
  t.same(planned('route'), [], 'what nobody uses is not in the kernel')
})

t.test('routed-02 ?tenant_id= narrows ranges and addresses', async (t) => {
  const { call, addRange, routed } = await networks(t)
  await addRange('8.8.4.0/31', { tenant_id: 'a' })
  await addRange('8.8.4.2/31', { tenant_id: 'b' })
  await addRange('8.8.4.4/31')
  const shown = async (query: string) => {
    const { ranges, addresses } = await routed(query)
    return [ranges.map(({ cidr }) => cidr), addresses.map(({ ip }) => ip)]
  }
  t.same(await shown('?tenant_id=b'), [['8.8.4.2/31'], ['8.8.4.2', '8.8.4.3']])
  t.same(await shown('?tenant_id='), [['8.8.4.4/31'], ['8.8.4.4', '8.8.4.5']])
  t.same(await shown('?tenant_id=c'), [[], []])
  t.equal((await call('GET', `${R}?tenant_id=a/b`)).status, 400)
})

t.test('routed-01 long lists: every address once, in order', async (t) => {
  const { addRange, routed } = await networks(t)
  await addRange('8.8.16.0/20')
  await addRange('8.8.8.0/24')
  await addRange('8.8.9.7')
  const { ranges, addresses } = await routed()
  t.equal(addresses.length, 4096 + 256 + 1)
  t.equal(ranges.length, 3)
  const ips = addresses.map(({ ip }) => ip.split('.').reduce((sum, byte) => sum * 256 + Number(byte), 0))
  t.ok(ips.every((it, at) => at === 0 || it > (ips[at - 1] ?? 0)))
  t.equal((await routed('?tenant_id=')).addresses.length, addresses.length)
})

t.test('routed-07 routed-08 routed-09 D47 what is not public is 400, and nothing is there', async (t) => {
  const { call, unchanged } = await networks(t)
  const notPublic = [
    ...['10.0.0.0/24', '10.255.255.255', '172.16.0.0/20', '172.31.255.0/24', '192.168.0.0/24', '192.168.7.7'],
    ...['127.0.0.1', '169.254.0.0/24', '224.0.0.0/24', '239.1.2.3', '240.0.0.0/20', '255.255.255.255', '0.0.0.0'],
    ...['192.0.2.0/24', '198.51.100.7', '203.0.113.0/28', '100.64.0.0/20', '100.127.255.255', '198.18.0.0/24'],
    ...['198.19.255.0/24', '192.0.0.0/24', '192.0.0.0/20', '192.88.99.1', '203.0.112.0/20'],
  ]
  for (const cidr of notPublic) {
    const answer = await unchanged(() => call('POST', R, { cidr }))
    t.equal(answer.status, 400, cidr)
    t.match(answer.body.error, /^cidr: \S+ is not public: /)
  }
  const table: [object, RegExp][] = [
    [{}, /^cidr is required/],
    [{ cidr: '' }, /^cidr: /],
    [{ cidr: 'x' }, /^cidr: not a CIDR/],
    [{ cidr: '8.8.4.1/24' }, /^cidr: has host bits set: the block is 8\.8\.4\.0\/24/],
    [{ cidr: '2001:4860::/32' }, /^cidr: /],
    [{ cidr: '2001:4860::1' }, /^cidr: /],
    [{ cidr: '8.8.0.0/19' }, /^cidr: too wide/],
    [{ cidr: '0.0.0.0/0' }, /^cidr: too wide/],
    [{ cidr: '10.0.0.0/8' }, /^cidr: too wide/],
    [{ cidr: 8 }, /^cidr: /],
    [{ cidr: '8.8.4.0/24', tenant_id: 'a b' }, /^tenant_id: /],
    [{ cidr: '8.8.4.0/24', description: 'a\nb' }, /^description: /],
    [{ cidr: '8.8.4.0/24', description: 'x'.repeat(256) }, /^description: /],
  ]
  for (const [body, error] of table) {
    const answer = await unchanged(() => call('POST', R, body))
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  for (const cidr of ['8.8.0.0/20', '100.63.255.255', '100.128.0.0', '172.32.0.0/24', '172.15.255.0/24', '11.0.0.0']) {
    t.equal((await call('POST', R, { cidr })).status, 201, `control: ${cidr}`)
  }
})

t.test('routed-10 routed-11 D20 what overlaps is 409, and nothing is there', async (t) => {
  const { call, create, addRange, unchanged } = await networks(t, { config: { max_routed_ranges: '2' } })
  await addRange('8.8.4.0/24')
  await create({ name: 'lab', cidr: '9.9.0.0/16', tenant_id: 'a' })
  const table: [string, RegExp][] = [
    ['8.8.4.0/24', /overlaps 8\.8\.4\.0\/24, which is there already/],
    ['8.8.4.255', /overlaps 8\.8\.4\.0\/24/],
    ['8.8.0.0/20', /overlaps 8\.8\.4\.0\/24/],
    ['9.9.255.0/24', /overlaps network lab \(9\.9\.0\.0\/16\)/],
    ['9.9.0.0', /overlaps network lab/],
  ]
  for (const [cidr, error] of table) {
    const answer = await unchanged(() => call('POST', R, { cidr }))
    t.equal(answer.status, 409, cidr)
    t.match(answer.body.error, error)
  }
  await addRange('8.8.5.0/24')
  const full = await unchanged(() => call('POST', R, { cidr: '8.8.3.0/24' }))
  t.same([full.status, full.body], [409, { error: 'limit reached: routed ranges (2)' }])
})

t.test('routed-13 routed-14 routed-15 routed-16 D5 every way to name a range to delete', async (t) => {
  const { call, addRange, events, planned, routed } = await networks(t)
  const ways: [string, (range: Range) => string][] = [
    ['8.8.4.0/28', ({ id }) => `/${id}`],
    ['8.8.4.0/28', () => '/8.8.4.0%2F28'],
    ['8.8.4.0/28', () => '/8.8.4.0%2f28'],
    ['8.8.4.0/28', () => '/8.8.4.0-28'],
    ['8.8.4.0/28', () => '?cidr=8.8.4.0/28'],
    ['8.8.4.0/28', () => '?cidr=8.8.4.0%2F28'],
    ['8.8.4.7', () => '/8.8.4.7'],
    ['8.8.4.7', () => '/8.8.4.7-32'],
    ['8.8.4.7/32', () => '?cidr=8.8.4.7'],
  ]
  for (const [cidr, way] of ways) {
    const range = await addRange(cidr)
    const gone = { id: range.id, cidr: range.cidr }
    events()
    const { status, body } = await call('DELETE', `${R}${way(range)}`)
    t.same([status, body], [200, { status: 'deleted', ...gone }], way(range))
    t.same(events(), [{ type: 'routed_range.deleted', resource: `${R}/${range.id}`, data: gone }])
    t.same(await routed(), { gateway: '169.254.0.1', ranges: [], addresses: [] })
    t.same(planned(), ALWAYS)
  }
})

t.test('routed-13 D47 an unknown range is 404', async (t) => {
  const { call, addRange, unchanged } = await networks(t)
  await addRange('8.8.4.0/28')
  const table: [string, number][] = [
    ['/rng-000000000000', 404],
    ['/8.8.4.0-29', 404],
    ['/8.8.4.0', 404],
    ['/8.8.4.1-28', 404],
    ['/8.8.5.0%2F28', 404],
    ['/x', 404],
    ['/-', 404],
    ['/-28', 404],
    ['?cidr=8.8.4.0/27', 404],
    ['?cidr=x', 400],
    ['?cidr=8.8.4.1/28', 400],
    ['?cidr=', 400],
    ['', 400],
    ['?other=1', 400],
  ]
  for (const [way, status] of table) {
    const answer = await unchanged(() => call('DELETE', `${R}${way}`))
    t.equal(answer.status, status, `${way}: ${answer.text}`)
  }
})
