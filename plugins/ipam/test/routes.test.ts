/** IPAM over REST, over a plane in memory. */
import t from 'tap'
import { buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import type { Pool } from '../schemas.ts'

const P = '/api/v1/ipam'
const UNLIMITED = { api_rate_limit: '10000000', api_rate_burst: '1000000' }

async function ipam(t: Scope, config: Record<string, string> = {}) {
  const built = await buildArea(t, 'ipam', { config: { ...UNLIMITED, ...config } })
  const { agent, call } = built
  const seen = { id: agent.outbox.bounds().latest }
  let made = 0
  return {
    ...built,
    async create(fields: object): Promise<Pool> {
      const { status, body, text } = await call('POST', `${P}/pools`, { name: `pool-${made++}`, ...fields })
      if (status !== 201) throw new Error(`POST ${JSON.stringify(fields)}: ${status} ${text}`)
      return body.pool as Pool
    },
    allocate: async (pool_id: number) => (await call('POST', `${P}/allocate`, { pool_id })).body.ip as string,
    /** Events since the last question. */
    events() {
      const fresh = agent.outbox.after(seen.id, 10_000)
      seen.id = fresh.at(-1)?.id ?? seen.id
      return fresh.map(({ type, resource, data }) => ({ type, resource, data }))
    },
  }
}

t.test('ipam-01 ipam-02 ipam-04 a pool that was created is listed, with its defaults', async (t) => {
  const { call, events } = await ipam(t)
  t.same((await call('GET', `${P}/pools`)).body, { pools: [] })
  const { status, body, headers } = await call('POST', `${P}/pools`, { name: 'a', subnet: '10.0.0.0/24' })
  const pool = {
    ...{ id: 1, name: 'a', subnet: '10.0.0.0/24', gateway: '', range_start: '10.0.0.1', range_end: '10.0.0.254' },
    ...{ is_ipv6: false, tenant_id: '' },
  }
  t.same([status, body], [201, { status: 'created', pool }])
  t.ok(headers['x-event-id'])
  t.same(events(), [{ type: 'pool.created', resource: '/api/v1/ipam/pools/1', data: pool }])
  const full = {
    ...{ name: 'b', subnet: '10.1.0.0/16', gateway: '10.1.0.1', range_start: '10.1.2.0', range_end: '10.1.2.9' },
    ...{ is_ipv6: false, tenant_id: 'acme' },
  }
  const second = await call('POST', `${P}/pools`, full)
  t.same(second.body, { status: 'created', pool: { id: 2, ...full } })
  const empty = { gateway: '', range_start: '', range_end: '', tenant_id: '' }
  const third = await call('POST', `${P}/pools`, { name: 'c', subnet: '10.2.0.0/30', ...empty })
  t.match(third.body.pool, { range_start: '10.2.0.1', range_end: '10.2.0.2' }, 'empty is absent')
  const list = async (query: string) =>
    ((await call('GET', `${P}/pools${query}`)).body.pools as Pool[]).map(({ id }) => id)
  t.same(await list(''), [1, 2, 3])
  t.same(await list('?tenant_id=acme'), [2])
  t.same(await list('?tenant_id='), [1, 3], "the operator's own")
  t.same(await list('?tenant_id=nobody'), [])
  t.equal((await call('GET', `${P}/pools?tenant_id=a%20b`)).status, 400)
})

t.test('ipam-03 ipam-05 ipam-06 ipam-07 ipam-08 what is refused changes nothing', async (t) => {
  const built = await ipam(t)
  const { call, create } = built
  await create({ subnet: '10.0.0.0/24' })
  await create({ subnet: 'fd00::/64', tenant_id: 'acme' })
  const before = snapshot(built)
  const ok = { name: 'x', subnet: '10.9.0.0/24' }
  const table: [object, RegExp][] = [
    [{ subnet: '10.9.0.0/24' }, /^name is required$/],
    [{ name: 'x' }, /^subnet is required$/],
    [{}, /is required$/],
    [{ ...ok, name: '' }, /^name: /],
    [{ ...ok, name: 'a/b' }, /^name: /],
    [{ ...ok, name: 7 }, /^name: /],
    [{ ...ok, subnet: '10.9.0.0' }, /^subnet: not a CIDR/],
    [{ ...ok, subnet: '10.9.0.1/24' }, /^subnet: has host bits set/],
    [{ ...ok, subnet: 'x' }, /^subnet: /],
    [{ ...ok, range_start: '10.8.0.1' }, /^range_start: must lie inside 10\.9\.0\.0\/24/],
    [{ ...ok, range_end: '10.9.1.0' }, /^range_end: must lie inside/],
    [{ ...ok, range_start: 'fd00::1' }, /^range_start: must lie inside/],
    [{ ...ok, range_start: '10.9.0.9', range_end: '10.9.0.8' }, /^range_start: must not be above range_end/],
    [{ ...ok, gateway: 'x' }, /^gateway: not an IP address/],
    [{ ...ok, gateway: '10.9.0.1/24' }, /^gateway: not an IP address/],
    [{ ...ok, gateway: 'fd00::1' }, /^gateway: must be of the same address family/],
    [{ ...ok, gateway: '10.8.0.1' }, /^gateway: must lie inside 10\.9\.0\.0\/24$/],
    [{ name: 'x', subnet: 'fd02::/64', gateway: 'fd03::1' }, /^gateway: must lie inside fd02::\/64$/],
    [{ ...ok, range_start: '10.9.0' }, /^range_start: not an IP address/],
    [{ ...ok, range_end: 'y' }, /^range_end: not an IP address/],
    [{ ...ok, is_ipv6: true }, /^is_ipv6: the subnet is IPv4/],
    [{ name: 'x', subnet: 'fd01::/64', is_ipv6: false }, /^is_ipv6: the subnet is IPv6/],
    [{ ...ok, is_ipv6: 'no' }, /^is_ipv6: /],
    [{ ...ok, tenant_id: 'a b' }, /^tenant_id: /],
    [{ ...ok, tenant_id: 'x'.repeat(65) }, /^tenant_id: /],
    [{ ...ok, subnet: '10.0.0.0/24' }, /^subnet: overlaps pool 1/],
    [{ ...ok, subnet: '10.0.0.0/25' }, /^subnet: overlaps pool 1/],
    [{ ...ok, subnet: '10.0.0.128/25' }, /^subnet: overlaps pool 1/],
    [{ ...ok, subnet: '10.0.0.0/8', range_start: '10.7.0.0', range_end: '10.7.0.1' }, /^subnet: overlaps pool 1/],
    [{ ...ok, subnet: 'fd00::8000:0:0:0/65', tenant_id: 'acme' }, /^subnet: overlaps pool 2/],
  ]
  for (const [body, error] of table) {
    const answer = await call('POST', `${P}/pools`, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  t.same(snapshot(built), before)
  t.equal((await call('POST', `${P}/pools`, ok)).status, 201, 'control')
})

t.test('D8 a pool has a name of its own among those of its tenant', async (t) => {
  const { call, create } = await ipam(t)
  await create({ name: 'lab', subnet: '10.0.0.0/24' })
  await create({ name: 'lab', subnet: '10.0.0.0/24', tenant_id: 'acme' })
  const again = await call('POST', `${P}/pools`, { name: 'lab', subnet: '10.1.0.0/24' })
  t.same([again.status, again.body], [409, { error: 'pool lab already exists' }])
  await create({ name: 'lab2', subnet: '10.1.0.0/24' })
})

t.test('ipam-09 another tenant may have the same range', async (t) => {
  const { create } = await ipam(t)
  for (const tenant_id of ['', 'a', 'b', 'A']) await create({ subnet: '10.0.0.0/24', tenant_id })
  await create({ subnet: '10.0.1.0/24', tenant_id: 'a' })
  await create({ subnet: '::/8', tenant_id: 'a' })
})

t.test('ipam-10 D48 an IPv6 pool, as large as they come', async (t) => {
  const { call, create, allocate } = await ipam(t)
  const pool = await create({ subnet: 'FD00:1::/64', is_ipv6: true, gateway: 'fe80::1' })
  t.match(pool, {
    subnet: 'fd00:1::/64',
    is_ipv6: true,
    range_start: 'fd00:1::1',
    range_end: 'fd00:1::ffff:ffff:ffff:ffff',
    gateway: 'fe80::1',
  })
  t.equal(await allocate(pool.id), 'fd00:1::1')
  t.equal(await allocate(pool.id), 'fd00:1::2')
  const released = await call('POST', `${P}/release`, { pool_id: pool.id, ip: 'FD00:1:0:0:0::1' })
  t.same([released.status, released.body], [200, { status: 'released' }])
  t.equal(await allocate(pool.id), 'fd00:1::1')
})

t.test('ipam-11 DELETE takes the allocations with it, and no id is used twice', async (t) => {
  const built = await ipam(t)
  const { agent, call, create, allocate, events } = built
  const first = await create({ subnet: '10.0.0.0/24' })
  await create({ subnet: '10.1.0.0/24' })
  for (let n = 0; n < 3; n++) for (const id of [1, 2]) await allocate(id)
  events()
  const { status, body } = await call('DELETE', `${P}/pools/${first.id}`)
  t.same([status, body], [200, { status: 'deleted', id: 1 }])
  t.same(events(), [{ type: 'pool.deleted', resource: '/api/v1/ipam/pools/1', data: { id: 1 } }])
  const left = (await call('GET', `${P}/allocations`)).body.allocations as { pool_id: number }[]
  t.same(
    left.map(({ pool_id }) => pool_id),
    [2, 2, 2],
  )
  for (const id of ['1', '3', '0', 'x', '1.0', '-1', '99999999999999999999']) {
    t.equal((await call('DELETE', `${P}/pools/${id}`)).status, 404, id)
  }
  t.equal((await create({ subnet: '10.0.0.0/24' })).id, 3)
  for (const id of [2, 3]) await call('DELETE', `${P}/pools/${id}`)
  const { rows } = snapshot({ agent, plane: built.plane })
  t.same([rows.ipam_pools, rows.ipam_allocations, rows.ipam_free], [[], [], []], 'nothing stays')
})

t.test('ipam-12 ipam-13 allocations are listed, by tenant too', async (t) => {
  const { call, create, events } = await ipam(t)
  await create({ subnet: '10.0.0.0/24', tenant_id: 'acme' })
  await create({ subnet: '10.0.0.0/24' })
  events()
  const { status, body } = await call('POST', `${P}/allocate`, { pool_id: 1, hostname: 'printer.lab' })
  const allocation = { id: 1, pool_id: 1, ip: '10.0.0.1', hostname: 'printer.lab' }
  t.same([status, body], [200, { status: 'allocated', ...allocation }])
  t.same(events(), [{ type: 'allocation.created', resource: '/api/v1/ipam/allocations/1', data: allocation }])
  const other = { id: 2, pool_id: 2, ip: '10.0.0.1', hostname: '' }
  t.same((await call('POST', `${P}/allocate`, { pool_id: 2 })).body, { status: 'allocated', ...other })
  const list = async (query: string) => (await call('GET', `${P}/allocations${query}`)).body
  t.same(await list(''), { allocations: [allocation, other] })
  t.same(await list('?tenant_id=acme'), { allocations: [allocation] })
  t.same(await list('?tenant_id='), { allocations: [other] })
  t.same(await list('?tenant_id=x'), { allocations: [] })
})

t.test('ipam-14 ipam-16 ipam-18 a full pool is 409, what is released is handed out again', async (t) => {
  const built = await ipam(t)
  const { call, create, allocate, events } = built
  const range = { range_start: '10.0.0.4', range_end: '10.0.0.7' }
  await create({ subnet: '10.0.0.0/24', gateway: '10.0.0.5', ...range })
  t.same([await allocate(1), await allocate(1), await allocate(1)], ['10.0.0.4', '10.0.0.6', '10.0.0.7'])
  const before = snapshot(built)
  const full = await call('POST', `${P}/allocate`, { pool_id: 1 })
  t.same([full.status, full.body], [409, { error: 'no free address' }])
  t.same(snapshot(built), before)
  events()
  t.same((await call('POST', `${P}/release`, { pool_id: 1, ip: '10.0.0.6' })).body, { status: 'released' })
  const resource = '/api/v1/ipam/allocations/2'
  t.same(events(), [{ type: 'allocation.deleted', resource, data: { id: 2, pool_id: 1, ip: '10.0.0.6' } }])
  t.match((await call('POST', `${P}/allocate`, { pool_id: 1 })).body, { id: 4, ip: '10.0.0.6' })
})

t.test('ipam-15 500 calls at once get 500 addresses', async (t) => {
  const { create, allocate } = await ipam(t)
  await create({ subnet: '10.0.0.0/23', gateway: '10.0.0.1' })
  const got = await Promise.all(Array.from({ length: 500 }, () => allocate(1)))
  t.equal(new Set(got).size, 500)
  t.notOk(got.includes('10.0.0.1'))
})

t.test('ipam-17 ipam-19 unknown things are 404, missing fields 400, and nothing changes', async (t) => {
  const built = await ipam(t)
  const { call, create, allocate } = built
  await create({ subnet: '10.0.0.0/24' })
  await create({ subnet: '10.0.1.0/24' })
  await allocate(1)
  const before = snapshot(built)
  const table: [string, unknown, number][] = [
    ['allocate', { pool_id: 3 }, 404],
    ['allocate', { pool_id: 0 }, 404],
    ['allocate', { pool_id: -1 }, 404],
    ['allocate', { pool_id: 9e15 }, 404],
    ['allocate', {}, 400],
    ['allocate', { pool_id: '1' }, 400],
    ['allocate', { pool_id: 1.5 }, 400],
    ['allocate', { pool_id: 1, hostname: 'under_score' }, 400],
    ['allocate', { pool_id: 1, hostname: '-a' }, 400],
    ['allocate', { pool_id: 1, hostname: 'a..b' }, 400],
    ['allocate', { pool_id: 1, hostname: `${'a'.repeat(64)}` }, 400],
    ['allocate', { pool_id: 1, hostname: 'a.'.repeat(127) }, 400],
    ['release', { ip: '10.0.0.1' }, 400],
    ['release', { pool_id: 1 }, 400],
    ['release', {}, 400],
    ['release', { pool_id: 1, ip: 'x' }, 400],
    ['release', { pool_id: 1, ip: 7 }, 400],
    ['release', { pool_id: 1, ip: '10.0.0.2' }, 404],
    ['release', { pool_id: 1, ip: '::1' }, 404],
    ['release', { pool_id: 2, ip: '10.0.0.1' }, 404],
    ['release', { pool_id: 3, ip: '10.0.0.1' }, 404],
  ]
  for (const [path, body, status] of table) {
    const answer = await call('POST', `${P}/${path}`, body)
    t.equal(answer.status, status, `${path} ${JSON.stringify(body)}: ${answer.text}`)
    t.type(answer.body.error, 'string')
  }
  t.same(snapshot(built), before)
})

t.test('D20 the number of pools is limited, at once', async (t) => {
  const { agent, call, create } = await ipam(t, { max_ip_pools: '2' })
  await create({ subnet: '10.0.0.0/24' })
  await create({ subnet: '10.0.1.0/24' })
  const { status, body } = await call('POST', `${P}/pools`, { name: 'c', subnet: '10.0.2.0/24' })
  t.same([status, body], [409, { error: 'limit reached: pools (2)' }])
  await call('DELETE', `${P}/pools/1`)
  await create({ subnet: '10.0.2.0/24' })
  t.equal(agent.config.int('max_ip_pools'), 2)
})

t.test('D10 an unknown key is ignored and named', async (t) => {
  const { call } = await ipam(t)
  const { status, headers } = await call('POST', `${P}/pools`, { name: 'a', subnet: '10.0.0.0/24', subent: 1 })
  t.same([status, headers['x-ignored-fields']], [201, 'subent'])
})
