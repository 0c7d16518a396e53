/** A deletion takes everything along that bears the tenant's id, and nothing else; or nothing at all. */

import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { fc } from '../../../test/property.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import type { Tenant } from '../schemas.ts'
import { P, refusal, type Tenants, tenantsArea } from './area.ts'

/** Gives a tenant some of everything, in the block `10.<n>.0.0/16` and the public ones of that number. */
async function furnish({ ok, network, attach, mint, quota }: Tenants, tenant: Tenant, n: number) {
  const gateway = { gateway: `10.${n}.0.1`, host_gateway: true, snat: true }
  const lan = await network(tenant, { cidr: `10.${n}.0.0/24`, ...gateway, vlan: n })
  const other = await network(tenant, { cidr: `10.${n}.1.0/29` })
  await ok('POST', '/routed-addresses', { cidr: `8.8.${n}.0/29`, tenant_id: tenant.id })
  await ok('POST', '/routed-addresses', { cidr: `8.9.${n}.0`, tenant_id: tenant.id })
  await ok('POST', `/networks/${lan.id}/attach`, {})
  const { endpoint } = (await ok('POST', `/networks/${other.id}/attach`, {})) as { endpoint: { id: string } }
  await ok('PUT', `/networks/${other.id}/endpoints/${endpoint.id}/mac`, { mac: '02:00:00:00:00:09' })
  await attach(`both${n}`, { network: lan.id, public_ip: 'auto' })
  await attach(`shared${n}`, { network: lan.id, public_ip: `8.7.0.${n}` })
  await attach(`alone${n}`, { public_ip: `8.8.${n}.5` })
  const { pool } = (await ok('POST', '/ipam/pools', { name: 'p', subnet: 'fd00::/64', tenant_id: tenant.id })) as {
    pool: { id: number }
  }
  await ok('POST', '/ipam/allocate', { pool_id: pool.id })
  const { pools } = (await ok('GET', `/ipam/pools?tenant_id=${tenant.id}`)) as { pools: { id: number }[] }
  for (const { id } of pools) await ok('POST', '/ipam/allocate', { pool_id: id })
  await quota(tenant, { networks: 9 })
  await mint(tenant)
}

/** Rows and entries, without what counts events and ids. */
function held(built: Tenants) {
  const { rows, entries } = snapshot(built)
  const left = Object.entries(rows).filter(([name]) => !/^core_|sqlite_|counters|__/.test(name))
  return { rows: Object.fromEntries(left), entries }
}

t.test('tenant-05 D9 everything of the tenant goes, in use or not, and nothing of others', async (t) => {
  const built = await tenantsArea(t)
  const { ok, add, attach, network, events, quota } = built
  await ok('POST', '/routed-addresses', { cidr: '8.7.0.0/24' })
  const other = await add('other')
  await furnish(built, other, 1)
  const operators = await network(undefined, { cidr: '10.200.0.0/24' })
  await attach('operators', { network: operators.id, public_ip: '8.7.0.200' })
  const before = held(built)
  const acme = await add('acme')
  await furnish(built, acme, 2)
  t.match((await quota(acme)).usage, { networks: 2, endpoints: 4, ip_pools: 1, routed_addresses: 10, keys: 1 })
  const all = JSON.stringify(held(built))
  t.ok(all.includes(acme.id))
  events()

  t.same(await ok('DELETE', `/tenant/${acme.id}`), { status: 'deleted', id: acme.id })
  t.same(held(built), before, 'as if it had never been')
  const told = events()
  const count = (type: string) => told.filter((event) => event.type === type).length
  t.same(
    told.map(({ type, area }) => `${area} ${type}`).filter((text, at, list) => list.indexOf(text) === at),
    [
      'ipam allocation.deleted',
      'networks network.deleted',
      'networks routed_range.deleted',
      'ipam pool.deleted',
      'tenants tenant.deleted',
    ],
  )
  t.same(
    ['allocation.deleted', 'network.deleted', 'routed_range.deleted', 'pool.deleted', 'tenant.deleted'].map(count),
    [3, 2, 2, 1, 1],
  )
  const used = told.filter(({ type }) => type === 'allocation.deleted').map(({ data }) => (data as { ip: string }).ip)
  t.same(used.sort(), ['8.7.0.2', '8.8.2.0', '8.8.2.5'])
})

t.test('tenant-05 persist-01 what the kernel or the store refuses leaves all as it was', async (t) => {
  const built = await tenantsArea(t)
  const { add, call, plane, ok, mint, as } = built
  await ok('POST', '/routed-addresses', { cidr: '8.7.0.0/24' })
  const acme = await add('acme')
  await furnish(built, acme, 2)
  const { secret } = await mint(acme)
  const before = snapshot(built)
  plane.refuse = new KernelRefusal('made up')
  t.match(refusal(await call('DELETE', `${P}/tenant/${acme.id}`)), [409, /the kernel refused/])
  plane.refuse = undefined
  t.same(snapshot(built), before)
  t.equal((await as(secret, 'GET', `/tenant/${acme.id}`)).status, 200)
  await ok('DELETE', `/tenant/${acme.id}`)
  t.equal((await as(secret, 'GET', `/tenant/${acme.id}`)).status, 401)
})

t.test('tenant-05 what surrounds or fills the networks of another goes, and theirs stay', async (t) => {
  const built = await tenantsArea(t)
  const blocks = (...list: string[]) => fc.uniqueArray(fc.constantFrom(...list), { minLength: 1 })
  const mine = blocks('10.0.0.0/16', '10.0.0.0/24', '10.0.0.0/28', '10.0.1.0/24', '10.0.0.128/25')
  const others = blocks('10.0.0.0/17', '10.0.0.0/24', '10.0.0.16/28', '10.0.1.0/25')
  const furnished = async (cidrs: string[]) => {
    const tenant = await built.add()
    // Those of one tenant do not overlap.
    for (const cidr of cidrs) await built.network(tenant, { cidr }).catch(() => {})
    return tenant
  }
  const runs = fc.asyncProperty(mine, others, async (own, theirs) => {
    const other = await furnished(theirs)
    const before = JSON.stringify(held(built))
    const tenant = await furnished(own)
    const between = JSON.stringify(held(built))
    await built.ok('DELETE', `/tenant/${tenant.id}`)
    if (between === before || JSON.stringify(held(built)) !== before) throw new Error('others have changed')
    await built.ok('DELETE', `/tenant/${other.id}`)
  })
  await fc.assert(runs, { numRuns: 15 })
  t.same((await built.ok('GET', '/networks')).networks, [])
})

t.test('tkey-10 D106 the portal shows what the tenant has, and nothing of others', async (t) => {
  const built = await tenantsArea(t)
  const { ok, add, mint, as, network, attach } = built
  await ok('POST', '/routed-addresses', { cidr: '8.7.0.0/24' })
  const [acme, other] = [await add('acme'), await add('other')]
  await furnish(built, acme, 2)
  await furnish(built, other, 3)
  const operators = await network(undefined, { cidr: '10.200.0.0/24' })
  await attach('operators', { network: operators.id, public_ip: '8.7.0.200' })
  const { secret } = await mint(acme)
  const portal = async (what: string) => (await as(secret, 'GET', `/tenant/${acme.id}/${what}`)).body[what] as object[]
  const networks = ((await ok('GET', '/networks')).networks as { tenant_id?: string }[]).filter(
    ({ tenant_id }) => tenant_id === acme.id,
  )
  t.equal(networks.length, 2)
  t.same(await portal('networks'), networks)
  const all = (await ok('GET', '/routed-addresses')).addresses as { ip: string; tenant_id: string; used_by: string }[]
  const own = all.filter(({ tenant_id, ip }) => tenant_id === acme.id || ip === '8.7.0.2')
  t.same(
    await portal('addresses'),
    own.sort((a, b) => Number(a.tenant_id === '') - Number(b.tenant_id === '')),
  )
  t.equal(own.length, 10)
  t.match(await portal('usage'), { networks: 2, endpoints: 4, routed_addresses: 10, keys: 2, monthly_bytes: 0 })
})

t.test('tkey-10 lists longer than a page, of the tenant alone', async (t) => {
  const built = await tenantsArea(t)
  const { ok, add, network, attach, as, mint } = built
  const [acme, other] = [await add(), await add()]
  await ok('POST', '/routed-addresses', { cidr: '8.8.0.0/23', tenant_id: acme.id })
  await ok('POST', '/routed-addresses', { cidr: '8.7.0.0/21' })
  const [lan, second, theirs] = [
    await network(acme, { cidr: '10.0.0.0/16' }),
    await network(acme, { cidr: '10.1.0.0/24' }),
    await network(other, { cidr: '10.0.0.0/16' }),
  ]
  for (let n = 0; n < 5; n++) {
    await attach(`vm${n}`, { network: lan.id, public_ip: `8.7.2.${n}` })
    await attach(`second${n}`, { network: second.id, public_ip: `8.7.1.${n}` })
    await attach(`theirs${n}`, { network: theirs.id, public_ip: `8.7.0.${n}` })
  }
  const { secret } = await mint(acme)
  const { addresses } = (await as(secret, 'GET', `/tenant/${acme.id}/addresses`)).body as {
    addresses: { ip: string }[]
  }
  t.equal(addresses.length, 522)
  t.equal(new Set(addresses.map(({ ip }) => ip)).size, 522)
  t.same(
    addresses
      .slice(512)
      .map(({ ip }) => ip)
      .sort(),
    ['1', '2'].flatMap((net) => [0, 1, 2, 3, 4].map((n) => `8.7.${net}.${n}`)),
  )
})

t.test(
  'a public address for everybody is given back with the endpoint of a tenant, and does not leave the tenant with it',
  async (t) => {
    const built = await tenantsArea(t)
    const { ok, add, attach, network, quota } = built
    await ok('POST', '/routed-addresses', { cidr: '8.7.0.0/24' })
    const acme = await add('acme')
    const lan = await network(acme, { cidr: '10.2.0.0/24' })
    const before = held(built)
    await attach('web', { network: lan.id, public_ip: '8.7.0.9' })
    t.match((await quota(acme)).usage, { endpoints: 1, routed_addresses: 1 })
    const { endpoints } = (await ok('GET', `/networks/${lan.id}/endpoints?state=bound`)) as {
      endpoints: { id: string }[]
    }
    await ok('POST', `/networks/${lan.id}/endpoints/${endpoints[0]?.id}/detach`)
    t.match((await quota(acme)).usage, { endpoints: 0, routed_addresses: 0 })
    t.same(held(built).entries, before.entries, 'and nothing of it is served any more')
  },
)
