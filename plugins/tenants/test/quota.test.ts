/** What a tenant may have: set and shown, and kept wherever something is taken for it. */

import t from 'tap'
import { RESOURCES } from '../../../core/tenancy.ts'
import { fc } from '../../../test/property.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { P, refusal, tenantsArea } from './area.ts'

const NOTHING = Object.fromEntries(RESOURCES.map((resource) => [resource, 0]))
const exceeded = (what: string) => [409, `quota exceeded: ${what}`]

t.test('tenant-07 D104 limits are set one by one, and shown with what there is', async (t) => {
  const { add, quota, call, clock, events } = await tenantsArea(t)
  const tenant = await add()
  const at = '2030-01-01T00:00:00.000Z'
  t.same(await quota(tenant), { tenant_id: tenant.id, limits: NOTHING, usage: NOTHING, updated_at: at })
  events()
  clock.ms += 1000
  const later = '2030-01-01T00:00:01.000Z'
  const limits = { networks: 5, keys: -1, bandwidth_bps: 1e9, monthly_bytes: Number.MAX_SAFE_INTEGER }
  const { status, body } = await call('PUT', `${P}/tenant/${tenant.id}/quota`, limits)
  const shown = { tenant_id: tenant.id, limits: { ...NOTHING, ...limits, keys: 0 }, usage: NOTHING, updated_at: later }
  t.same([status, body], [200, { status: 'updated', quota: shown }])
  t.same(await quota(tenant), shown)
  t.match(events(), [{ type: 'tenant_quota.updated', resource: `${P}/tenant/${tenant.id}/quota`, data: shown }])
  clock.ms += 1000
  t.match(await quota(tenant, { networks: 0, endpoints: 7 }), {
    limits: { ...shown.limits, networks: 0, endpoints: 7 },
    updated_at: '2030-01-01T00:00:02.000Z',
  })
  t.match(await quota(tenant, {}), { limits: { endpoints: 7 }, updated_at: '2030-01-01T00:00:02.000Z' })
})

t.test('tenant-07 D104 what is no limit is refused, and nothing changes', async (t) => {
  const built = await tenantsArea(t)
  const { id } = await built.add()
  const before = JSON.stringify(snapshot(built))
  for (const [body, error] of [
    [{ networks: -2 }, /^networks: /],
    [{ networks: 1.5 }, /^networks: /],
    [{ networks: '5' }, /^networks: /],
    [{ networks: null }, /^networks: /],
    [{ networks: Number.MAX_SAFE_INTEGER + 1 }, /^networks: /],
    [{ networks: 5, volumes: 1 }, /^unrecognised key: volumes$/],
    [{ limits: { networks: 5 } }, /^unrecognised key: limits$/],
    [[], /body/],
  ] as const) {
    const answer = await built.call('PUT', `${P}/tenant/${id}/quota`, body)
    t.equal(answer.status, 400, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  t.equal(JSON.stringify(snapshot(built)), before)
})

t.test('D104 networks: over the quota is 409, and lowering it takes nothing away', async (t) => {
  const { add, quota, network, call, ok } = await tenantsArea(t)
  const [tenant, other] = [await add(), await add()]
  await quota(tenant, { networks: 2 })
  const body = (n: number) => ({ name: `x${n}`, cidr: `10.0.${n}.0/24`, tenant_id: tenant.id })
  const [first] = [await ok('POST', '/networks', body(1)), await ok('POST', '/networks', body(2))]
  t.same(refusal(await call('POST', `${P}/networks`, body(3))), exceeded('networks (2 of 2)'))
  await quota(tenant, { networks: 1 })
  t.same(refusal(await call('POST', `${P}/networks`, body(3))), exceeded('networks (2 of 1)'))
  t.match(await quota(tenant), { limits: { networks: 1 }, usage: { networks: 2, ip_pools: 0 } })
  await network(other)
  await network(undefined)
  await ok('DELETE', `/networks/${(first.network as { id: string }).id}`)
  await quota(tenant, { networks: 2 })
  await ok('POST', '/networks', body(3))
  await quota(tenant, { networks: 0 })
  await ok('POST', '/networks', body(4))
})

t.test('D104 endpoints: bound by an attach or for a machine, over all networks of the tenant', async (t) => {
  const { add, quota, network, call, ok, attach, detach } = await tenantsArea(t)
  const tenant = await add()
  const [one, two] = [await network(tenant), await network(tenant, { cidr: '10.1.0.0/24' })]
  await quota(tenant, { endpoints: 3 })
  const { endpoint } = (await ok('POST', `/networks/${one.id}/attach`, {})) as { endpoint: { id: string; ip: string } }
  await attach('vm1', { network: two.id })
  await attach('vm2', { network: one.name })
  t.same(refusal(await call('POST', `${P}/networks/${two.id}/attach`, {})), exceeded('endpoints (3 of 3)'))
  await t.rejects(attach('vm3', { network: two.id }), { status: 409, message: 'quota exceeded: endpoints (3 of 3)' })
  const again = { ip: endpoint.ip }
  t.equal((await call('POST', `${P}/networks/${one.id}/attach`, again)).status, 200, 'what is bound stays bound')
  await call('PUT', `${P}/networks/${one.id}/endpoints/ep-000100000000/mac`, { mac: '02:00:00:00:00:01' })
  t.match((await quota(tenant)).usage, { endpoints: 3, ip_allocations: 0, networks: 2 })
  await detach('vm1')
  await attach('vm3', { network: two.id })
  await ok('POST', `/networks/${one.id}/endpoints/${endpoint.id}/detach`)
  t.equal((await quota(tenant)).usage.endpoints, 2)
})

t.test('D104 ip_pools and ip_allocations: those that nothing else owns', async (t) => {
  const { add, quota, network, call, ok } = await tenantsArea(t)
  const tenant = await add()
  await quota(tenant, { ip_pools: 1, ip_allocations: 2 })
  const lan = await network(tenant)
  const pool = (subnet: string) => ({ name: 'p', subnet, tenant_id: tenant.id })
  const { pool: own } = (await ok('POST', '/ipam/pools', pool('10.9.0.0/24'))) as { pool: { id: number } }
  t.same(refusal(await call('POST', `${P}/ipam/pools`, pool('10.8.0.0/24'))), exceeded('ip_pools (1 of 1)'))
  const { pools } = (await ok('GET', `/ipam/pools?tenant_id=${tenant.id}`)) as { pools: { id: number; name: string }[] }
  const ofNetwork = pools.find(({ name }) => name === lan.name)
  await ok('POST', '/ipam/allocate', { pool_id: own.id })
  const { ip } = await ok('POST', '/ipam/allocate', { pool_id: ofNetwork?.id })
  await ok('POST', `/networks/${lan.id}/attach`, {})
  const refused = refusal(await call('POST', `${P}/ipam/allocate`, { pool_id: own.id }))
  t.same(refused, exceeded('ip_allocations (2 of 2)'))
  t.match((await quota(tenant)).usage, { ip_pools: 1, ip_allocations: 2, endpoints: 1, networks: 1 })
  await ok('POST', '/ipam/release', { pool_id: ofNetwork?.id, ip })
  await ok('POST', '/ipam/allocate', { pool_id: own.id })
  await ok('DELETE', `/ipam/pools/${own.id}`)
  t.match((await quota(tenant)).usage, { ip_pools: 0, ip_allocations: 0 })
})

t.test('D104 routed_addresses: what is reserved, and what machines take out of ranges for everybody', async (t) => {
  const { add, quota, network, call, ok, attach, detach } = await tenantsArea(t)
  const tenant = await add()
  await quota(tenant, { routed_addresses: 5 })
  await ok('POST', '/routed-addresses', { cidr: '8.8.8.0/24' })
  const range = (cidr: string) => ({ cidr, tenant_id: tenant.id })
  t.same(
    refusal(await call('POST', `${P}/routed-addresses`, range('8.8.4.0/29'))),
    exceeded('routed_addresses (0 of 5)'),
  )
  await ok('POST', '/routed-addresses', range('8.8.4.0/30'))
  const lan = await network(tenant)
  await attach('vm1', { network: lan.id, public_ip: '8.8.4.1' })
  t.equal((await quota(tenant)).usage.routed_addresses, 4, 'it was reserved already')
  await attach('vm2', { network: lan.id, public_ip: '8.8.8.1' })
  t.equal((await quota(tenant)).usage.routed_addresses, 5)
  const message = 'quota exceeded: routed_addresses (5 of 5)'
  await t.rejects(attach('vm3', { network: lan.id, public_ip: '8.8.8.2' }), { status: 409, message })
  t.equal((await quota(tenant)).usage.endpoints, 2, 'neither of the two was taken')
  await attach('vm3', { network: lan.id, public_ip: 'auto' })
  await attach('operators', { public_ip: '8.8.8.9' })
  await detach('vm2')
  await attach('vm4', { network: lan.id, public_ip: '8.8.8.2' })
  t.equal((await quota(tenant)).usage.routed_addresses, 5)
})

t.test('D104 keys', async (t) => {
  const { add, quota, mint, call, ok } = await tenantsArea(t)
  const tenant = await add()
  await quota(tenant, { keys: 1 })
  const { key } = await mint(tenant)
  t.same(refusal(await call('POST', `${P}/tenant/${tenant.id}/keys`, { label: 'k' })), exceeded('keys (1 of 1)'))
  t.equal((await quota(tenant)).usage.keys, 1)
  await ok('DELETE', `/tenant/${tenant.id}/keys/${key.id}`)
  await mint(tenant)
})

t.test('D103 a suspended tenant gets nothing attached; what it has stays, and can be detached', async (t) => {
  const { add, network, call, ok, attach, plane } = await tenantsArea(t)
  const tenant = await add('acme')
  const lan = await network(tenant)
  await ok('POST', '/routed-addresses', { cidr: '8.8.4.0/30', tenant_id: tenant.id })
  const { endpoint } = (await ok('POST', `/networks/${lan.id}/attach`, {})) as { endpoint: { id: string; ip: string } }
  const before = JSON.stringify([...plane.entries])
  await ok('PUT', `/tenant/${tenant.id}`, { status: 'suspended' })
  t.equal(JSON.stringify([...plane.entries]), before, 'traffic goes on')
  const suspended = /^tenant acme is suspended and gets no more endpoints/
  t.match(refusal(await call('POST', `${P}/networks/${lan.id}/attach`, {})), [409, suspended])
  await t.rejects(attach('vm1', { network: lan.id }), { status: 409, message: suspended })
  await t.rejects(attach('vm1', { public_ip: '8.8.4.1' }), { status: 409, message: /no more routed_addresses/ })
  t.equal((await call('POST', `${P}/networks/${lan.id}/attach`, { ip: endpoint.ip })).status, 200, 'as it is')
  const rebound = { network: lan.id, ip: endpoint.ip }
  await t.rejects(attach('vm1', rebound), { status: 409, message: suspended }, 'nor for a machine, where it has one')
  await ok('POST', `/networks/${lan.id}/endpoints/${endpoint.id}/detach`)
  await ok('PUT', `/tenant/${tenant.id}`, { status: 'active' })
  await attach('vm1', { network: lan.id })
})

t.test('without the area every id is admitted', async (t) => {
  const { network } = await tenantsArea(t, { only: ['node', 'ipam', 'l2', 'networks'] })
  t.match(await network(undefined, { tenant_id: 'whoever' }), { tenant_id: 'whoever' })
})

t.test('D104 any sequence: what is shown is what there is, and no limit is passed', async (t) => {
  const built = await tenantsArea(t)
  const { ok, add, quota, attach, detach } = built
  await ok('POST', '/routed-addresses', { cidr: '8.8.8.0/24' })
  const step = fc.record({
    kind: fc.constantFrom(
      'network',
      'unnetwork',
      'attach',
      'attach',
      'detach',
      'nic',
      'nic',
      'leave',
      'pool',
      'allocate',
      'range',
      'key',
      'limit',
    ),
    ...{ a: fc.nat(99), b: fc.nat(9) },
  })
  const met = new Map<string, Set<number>>()
  const note = (kind: string, status: number) => met.set(kind, (met.get(kind) ?? new Set()).add(status))
  const done = async (kind: string, work: Promise<unknown>) =>
    note(
      kind,
      await work.then(
        () => 200,
        (error: { status?: number }) => error.status ?? 500,
      ),
    )
  const model = async (id: string) => {
    const list = async <T>(path: string, key: string) => (await ok('GET', path))[key] as T[]
    const networks = (await list<{ id: string; tenant_id?: string }>('/networks', 'networks')).filter(
      (it) => it.tenant_id === id,
    )
    let endpoints = 0
    for (const network of networks) {
      const all = await list<{ state: string }>(`/networks/${network.id}/endpoints`, 'endpoints')
      endpoints += all.filter(({ state }) => state === 'bound').length
    }
    const allocations = await list<{ hostname: string }>(`/ipam/allocations?tenant_id=${id}`, 'allocations')
    return {
      ...{ networks: networks.length, endpoints },
      ip_pools: (await list(`/ipam/pools?tenant_id=${id}`, 'pools')).length - networks.length,
      ip_allocations: allocations.length - endpoints,
      routed_addresses: (await list(`/tenant/${id}/addresses`, 'addresses')).length,
      keys: (await list(`/tenant/${id}/keys`, 'keys')).length,
      ...{ bandwidth_bps: 0, monthly_bytes: 0 },
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 20, size: 'max' }), fc.nat(3), async (steps, limit) => {
      const tenant = await add()
      const { id } = tenant
      const limits = Object.fromEntries(RESOURCES.map((resource) => [resource, limit === 0 ? 0 : limit + 1]))
      await quota(tenant, limits)
      for (const [n, { kind, a, b }] of steps.entries()) {
        const { networks } = (await ok('GET', `/tenant/${id}/networks`)) as { networks: { id: string }[] }
        const lan = networks[a % Math.max(1, networks.length)]?.id ?? 'none'
        const { pools } = (await ok('GET', `/ipam/pools?tenant_id=${id}`)) as { pools: { id: number }[] }
        const endpoint = `ep-000${b}0a00000${b}`
        const calls: Record<string, () => Promise<unknown>> = {
          network: () => ok('POST', '/networks', { name: `${id}${n}`, cidr: `10.${b}.0.0/29`, tenant_id: id }),
          unnetwork: () => ok('DELETE', `/networks/${lan}`),
          attach: () => ok('POST', `/networks/${lan}/attach`, {}),
          detach: () => ok('POST', `/networks/${lan}/endpoints/${endpoint}/detach`),
          nic: () => attach(`vm${a % 3}`, { network: lan, ...(b % 2 === 0 && { public_ip: 'auto' }) }),
          leave: () => detach(`vm${a % 3}`),
          pool: () => ok('POST', '/ipam/pools', { name: 'p', subnet: `172.16.${a}.0/30`, tenant_id: id }),
          allocate: () => ok('POST', '/ipam/allocate', { pool_id: pools[a % Math.max(1, pools.length)]?.id ?? 0 }),
          range: () => ok('POST', '/routed-addresses', { cidr: `8.8.4.${a}`, tenant_id: id }),
          key: () => ok('POST', `/tenant/${id}/keys`, { label: 'k' }),
          limit: () => quota(tenant, limits),
        }
        await done(kind, calls[kind]?.() ?? Promise.reject(new Error(kind)).catch(() => {}))
        const { usage } = await quota(tenant)
        const counted = await model(id)
        for (const resource of RESOURCES) {
          if (usage[resource] !== counted[resource]) {
            throw new Error(`${kind}: ${resource} is ${counted[resource]}, shown as ${usage[resource]}`)
          }
          if (limit > 0 && usage[resource] > limit + 1) throw new Error(`${kind}: ${resource} is ${usage[resource]}`)
        }
      }
      await ok('DELETE', `/tenant/${id}`)
    }),
    { numRuns: 10 },
  )
  for (const kind of ['network', 'attach', 'nic', 'leave', 'pool', 'allocate', 'range', 'key']) {
    t.ok(met.get(kind)?.has(200), `control: ${kind} succeeded at times`)
  }
  t.same((await ok('GET', '/ipam/pools')).pools, [])
  t.same((await ok('GET', '/networks')).networks, [])
  t.same(
    [...built.plane.entries.keys()].filter((key) => /endpoint|net\/|claim/.test(key)),
    [],
    'nothing is left',
  )
})
