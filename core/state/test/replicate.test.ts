/** A change of rows that all members of a cluster hold: what it costs, who may take it, and what the others make of it. */
import { sql } from 'drizzle-orm'
import t, { type Test } from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import type { BuiltAgent } from '../../../test/build.ts'
import { openMates } from '../../../test/mates.ts'
import { until } from '../../../test/segment.ts'
import { tagOf } from '../../transport/etag.ts'
import { system } from '../events.ts'

const P = '/api/v1'
const only = ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants', 'gateway', 'float']
const config = { uplink: 'eth0', api_rate_limit: '10000000', api_rate_burst: '1000000' }
const pair = (t: Test) => openMates(t, ['n1', 'n2'], { only, config })

async function ok(mate: BuiltAgent, method: string, path: string, body?: unknown) {
  const answer = await mate.call(method, `${P}${path}`, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
  return answer.body
}
const addTenant = async (mate: BuiltAgent, name: string) => {
  const { tenant } = (await ok(mate, 'POST', '/tenant', { name })) as { tenant: { id: string; name: string } }
  return tenant
}
const names = (mate: BuiltAgent) =>
  mate.agent.store.read
    .all<{ name: string }>(sql`select name from tenants_tenants order by name`)
    .map((row) => row.name)
const temporary = ({ agent }: BuiltAgent) =>
  agent.store.write.get<{ n: number }>(sql`select count(*) n from sqlite_temp_master where name like 'replicated%'`)?.n
const events = ({ agent }: BuiltAgent, since: number) => agent.outbox.after(since, 1000)
const floating = ({ plane }: BuiltAgent) => [...plane.entries.keys()].filter((key) => key.startsWith('float/'))
const latest = ({ agent }: BuiltAgent) => agent.outbox.bounds().latest
const counted = async (mate: BuiltAgent, result: string) => {
  const { text } = await mate.call('GET', `${P}/metrics`)
  return Number(new RegExp(`pipeline_mutations_total\\{area="tenants",result="${result}"\\} (\\d+)`).exec(text)?.[1])
}

t.test('outside of a cluster nothing is watched; inside only what is shared, and only while it is', async (t) => {
  const { mates, revision } = await pair(t)
  const [one] = mates
  one.active = false
  await addTenant(one, 'a')
  t.same([temporary(one), revision()], [0, 0])
  one.active = true
  await addTenant(one, 'b')
  t.ok(Number(temporary(one)) > 2)
  t.equal(revision(), 1)
  await ok(one, 'POST', '/networks', { name: 'own', cidr: '10.0.0.0/24' })
  t.equal(revision(), 1, 'a network and its pool are the node’s own')
  one.next = ['unavailable']
  await ok(one, 'POST', '/networks', { name: 'own2', cidr: '10.0.1.0/24' })
  t.same(one.next, ['unavailable'], 'the cluster is not asked for what is the node’s own')
  one.next = []
  const left = one.agent.store.write.get<{ n: number }>(sql`select count(*) n from temp.replicated_changes`)
  t.equal(left?.n, 0, 'and nothing is kept')
  one.active = false
  await addTenant(one, 'c')
  t.equal(temporary(one), 0)
})

t.test('without the cluster: 503 before the kernel is asked, and nothing remains', async (t) => {
  const { mates } = await pair(t)
  const [one] = mates
  const before = latest(one)
  let applied = 0
  const { apply } = one.plane
  one.plane.apply = (diff, mode) => {
    applied++
    return apply(diff, mode)
  }
  one.next = ['unavailable']
  const { status, body } = await one.call('POST', `${P}/float`, { ip: '192.0.2.7' })
  t.same([status, body.error, applied], [503, 'cluster service not available', 0])
  one.next = ['lost']
  t.equal((await one.call('POST', `${P}/float`, { ip: '192.0.2.7' })).status, 503)
  t.equal(applied, 1)
  t.same([floating(one), latest(one)], [[], before], 'the kernel is put back')
  await one.pump()
  t.equal(floating(one).length, 1, 'what came into force after all comes as from another member')
  t.same(
    events(one, before).map(({ type }) => type),
    ['floating_ip.created'],
  )
})

t.test('what was outrun waits outside of the pipeline, is judged anew, and counts once', async (t) => {
  const { mates, revision } = await pair(t)
  const [one, two] = mates
  const { id } = await addTenant(one, 'a')
  await two.pump()
  await ok(two, 'PUT', `/tenant/${id}`, { name: 'b' })
  const [done, told] = [await counted(one, 'ok'), latest(one)]
  await ok(one, 'PUT', `/tenant/${id}`, { status: 'suspended' })
  t.same(names(one), ['b'], 'it found what the other one had made')
  t.same(
    [await counted(one, 'ok'), events(one, told).map(({ type }) => type)],
    [done + 1, ['tenant.updated', 'tenant.updated']],
  )
  t.equal(revision(), 3)

  await two.pump()
  const stale = tagOf((await ok(one, 'GET', `/tenant/${id}`)) as object)
  await ok(two, 'PUT', `/tenant/${id}`, { name: 'c' })
  const answer = await one.call('PUT', `${P}/tenant/${id}`, { name: 'd' }, { 'if-match': stale })
  t.equal(answer.status, 412, 'If-Match is held against what is there then')
  await two.pump()
  await ok(two, 'DELETE', `/tenant/${id}`)
  t.equal((await one.call('PUT', `${P}/tenant/${id}`, { name: 'd' })).status, 404)
})

t.test('what is outrun again and again is refused in the end, as one change', async (t) => {
  const { mates } = await pair(t)
  const [one] = mates
  await addTenant(one, 'z')
  const [failed, told] = [await counted(one, 'failed'), latest(one)]
  one.next = Array.from({ length: 100 }, () => 'outrun')
  const { status, body } = await one.call('POST', `${P}/tenant`, { name: 'a' })
  t.same([status, body.error], [503, 'cluster service not available'])
  t.equal(one.next.length, 84)
  t.same([await counted(one, 'failed'), latest(one), names(one)], [failed + 1, told, ['z']])
  one.next = []
  await addTenant(one, 'a')
})

t.test('a pool goes as one change, however much is allocated in it, here and there', async (t) => {
  const { mates, held } = await pair(t)
  const [one, two] = mates
  const { pool } = (await ok(one, 'POST', '/ipam/pools', { name: 'p', subnet: '10.0.0.0/16' })) as {
    pool: { id: number }
  }
  await two.pump()
  const many = 5000
  const insert = sql`insert into ipam_allocations (pool_id, tenant_id, ip) with recursive n(i) as (select 1 union all select i + 1 from n where i < ${many})
    select ${pool.id}, '', printf('0a%06x', i) from n`
  for (const mate of mates) mate.agent.store.write.run(insert)
  const before = one.sent.length
  await ok(one, 'DELETE', `/ipam/pools/${pool.id}`)
  t.same(
    one.sent.slice(before).map((changes) => changes.map(({ collection }) => collection.name)),
    [['ipam_pools']],
  )
  await two.pump()
  for (const mate of mates) {
    const left = mate.agent.store.read.get<{ n: number }>(
      sql`select (select count(*) from ipam_allocations) + (select count(*) from ipam_free) + (select count(*) from ipam_pools) n`,
    )
    t.equal(left?.n, 0, mate.name)
  }
  t.same(held('ipam_pools'), [])
})

const numberOf = (event: { data: unknown } | undefined) => (event?.data as { id?: number } | undefined)?.id

t.test('each member tells the truth as it sees it, and who caused it', async (t) => {
  const { mates } = await pair(t)
  const [one, two] = mates
  await ok(two, 'POST', '/networks', { name: 'own', cidr: '10.9.0.0/24' })
  await ok(two, 'POST', '/ipam/allocate', { pool_id: 2 ** 40 + 1 })
  const since = latest(two)
  const asked = { 'x-request-id': 'asked-of-one' }
  await one.call('POST', `${P}/float`, { ip: '192.0.2.7' }, asked)
  await ok(one, 'POST', '/float', { ip: '192.0.2.8', primary: 'n2' })
  const { pool } = (await ok(one, 'POST', '/ipam/pools', { name: 'p', subnet: '10.0.0.0/24' })) as {
    pool: { id: number }
  }
  const given = await ok(one, 'POST', '/ipam/allocate', { pool_id: pool.id })
  await two.pump()
  const [here, there, made, allocated] = events(two, since)
  const told = (data: unknown) => {
    const { primary, active_host, state } = data as Record<string, unknown>
    return [primary, active_host, state]
  }
  t.same(
    [told(here?.data), told(there?.data)],
    [
      ['n1', 'n1', 'standby'],
      ['n2', 'n2', 'active'],
    ],
  )
  t.equal(here?.area, 'float')
  const [first] = events(one, 0).filter(({ type }) => type === 'floating_ip.created')
  t.same([here?.actor, here?.request_id], [first?.actor, first?.request_id], 'as the member told that was asked')
  t.same([made?.type, made?.area, numberOf(made)], ['pool.created', 'ipam', pool.id])
  t.same([given.id, numberOf(allocated)], [1, 2], 'the number of an allocation is the node’s own')
  t.same(
    (await ok(two, 'GET', '/float')).floating_ips,
    ((await ok(one, 'GET', '/float')).floating_ips as Record<string, unknown>[]).map((it) => ({
      ...it,
      state: it.state === 'active' ? 'standby' : 'active',
    })),
  )
  t.same(floating(one), ['float/address/eth0/192.0.2.7/32'])
  t.same(floating(two), ['float/address/eth0/192.0.2.8/32'])
})

t.test('tenant-05 tenant-06 a tenant that goes elsewhere takes along what this node alone has of it', async (t) => {
  const { mates } = await pair(t)
  const [one, two] = mates
  const tenant = await addTenant(one, 'a')
  const { secret } = (await ok(one, 'POST', `/tenant/${tenant.id}/keys`, { label: 'k' })) as { secret: string }
  await ok(one, 'PUT', `/tenant/${tenant.id}/quota`, { networks: 1, keys: 1 })
  const other = await addTenant(one, 'b')
  await two.pump()
  const asTenant = () => two.call('GET', `${P}/tenant/${tenant.id}`, undefined, { authorization: `Bearer ${secret}` })
  t.equal((await asTenant()).status, 200, 'its key opens every member')
  await ok(two, 'POST', '/networks', { name: 'own', cidr: '10.0.0.0/24', tenant_id: tenant.id })
  const more = await two.call('POST', `${P}/networks`, { name: 'own2', cidr: '10.1.0.0/24', tenant_id: tenant.id })
  t.match(more.body.error, /quota exceeded/, 'its quota counts there as well')
  const since = latest(two)
  await ok(one, 'DELETE', `/tenant/${tenant.id}`)
  await two.pump()
  t.same((await ok(two, 'GET', '/networks')).networks, [])
  t.same(
    events(two, since).map(({ type, area }) => `${area} ${type}`),
    ['networks network.deleted', 'tenants tenant.deleted'],
  )
  t.equal((await asTenant()).status, 401)
  t.same((await ok(two, 'GET', '/tenant')).tenants, [await tenantOf(one, other.id)])
})
const tenantOf = async (mate: BuiltAgent, id: string) => (await ok(mate, 'GET', `/tenant/${id}`)).tenant

t.test('what the kernel of another member refuses is stored all the same, and made good afterwards', async (t) => {
  const { mates } = await pair(t)
  const [one, two] = mates
  await ok(one, 'POST', '/float', { ip: '192.0.2.8', primary: 'n2' })
  const { apply } = two.plane
  let refused = 0
  two.plane.apply = async (diff, mode) => {
    if (mode === 'restore' && refused++ < 2) throw new KernelRefusal('not now')
    return apply(diff, mode)
  }
  await two.pump()
  t.equal(two.rows('float_addresses').length, 1)
  t.same(floating(two), [])
  t.equal((await ok(two, 'GET', '/status')).status, 'degraded', 'and the node says so')
  await ok(two, 'POST', '/float', { ip: '192.0.2.9' })
  t.equal(floating(two).length, 2, 'before anything is built on it')
})

t.test('what is the node’s own in a shared row stays its own', async (t) => {
  const { mates, revision } = await pair(t)
  const [one, two] = mates
  const { id } = await addTenant(one, 'a')
  const { secret } = (await ok(one, 'POST', `/tenant/${id}/keys`, { label: 'k' })) as { secret: string }
  await two.pump()
  const taken = revision()
  await two.call('GET', `${P}/tenant/${id}`, undefined, { authorization: `Bearer ${secret}` })
  const used = () => two.agent.store.read.get<{ at: string }>(sql`select last_used_at at from tenants_keys`)?.at
  await until('its use is stored', () => used() !== '')
  t.equal(revision(), taken, 'the cluster is told nothing of it')
  const at = used()
  await two.adopt(
    'tenants_keys',
    one.rows('tenants_keys').map((row) => ({ after: { ...row, label: 'other' } })),
    [],
  )
  t.same([used(), two.rows('tenants_keys')[0]?.label], [at, 'other'])
  t.notOk(Object.keys(two.rows('tenants_keys')[0] ?? {}).includes('last_used_at'))
})

t.test('rows that exchange what no two can share, and events of several members in one change', async (t) => {
  const { mates } = await pair(t)
  const [one, two] = mates
  const [a, b] = [await addTenant(one, 'a'), await addTenant(one, 'b')]
  await two.pump()
  const rows = one.rows('tenants_tenants')
  const swapped = rows.map((row) => ({ ...row, name: row.name === 'a' ? 'b' : 'a' }))
  const since = latest(two)
  await two.adopt(
    'tenants_tenants',
    swapped.map((after) => ({ after })),
    [system('n1'), system('n3')],
  )
  t.same(
    two
      .rows('tenants_tenants')
      .map(({ id, name }) => [id, name])
      .sort(),
    [
      [a.id, 'b'],
      [b.id, 'a'],
    ].sort(),
  )
  t.same(
    events(two, since)
      .map(({ type, actor }) => `${type} ${actor.label}`)
      .sort(),
    ['tenant.updated n1', 'tenant.updated n3'],
  )
  await two.adopt(
    'tenants_tenants',
    swapped.map((after) => ({ after })),
    [],
  )
  t.equal(events(two, since).length, 2, 'what is so already is nothing new')
})
