/** Two members that change what excludes each other, neither knowing of the other: one is first, the other finds that. */
import t, { type Test } from 'tap'
import { openMates } from '../../../test/mates.ts'

const P = '/api/v1'
const only = ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants', 'gateway', 'float']
const config = { uplink: 'eth0', api_rate_limit: '10000000', api_rate_burst: '1000000' }

async function pair(t: Test) {
  const { mates, held } = await openMates(t, ['n1', 'n2'], { only, config })
  const [one] = mates
  return {
    held,
    /** Through the first member, known to both. */
    async given(method: string, path: string, body?: unknown) {
      const answer = await one.call(method, P + path, body)
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
      for (const mate of mates) await mate.pump()
      return answer.body as { tenant: { id: string }; pool: { id: number } }
    },
    /** Through both at once; statuses, ascending, and all bodies. */
    async both(...calls: [method: string, path: string, body?: unknown][]) {
      const asked = mates.flatMap((mate, at) =>
        calls
          .filter((_, n) => calls.length < 2 || n === at)
          .map(([method, path, body]) => mate.call(method, P + path, body)),
      )
      const answers = await Promise.all(asked)
      for (const mate of mates) await mate.pump()
      for (const mate of mates) {
        for (const name of ['tenants_tenants', 'tenants_keys', 'ipam_pools', 'ipam_allocations', 'float_addresses']) {
          t.same(mate.rows(name), held(name), `${name} on ${mate.name}`)
        }
      }
      return {
        statuses: answers.map(({ status }) => status).sort(),
        errors: answers.map(({ body }) => body.error).join(''),
      }
    },
  }
}

t.test('a name, an address, a range are given once', async (t) => {
  const { both } = await pair(t)
  const tenant = await both(['POST', '/tenant', { name: 'a' }])
  t.same([tenant.statuses, tenant.errors], [[201, 409], 'tenant a already exists'])
  t.same((await both(['POST', '/float', { ip: '192.0.2.7' }])).statuses, [201, 409])
  const pools = await both(
    ['POST', '/ipam/pools', { name: 'p', subnet: '10.0.0.0/24' }],
    ['POST', '/ipam/pools', { name: 'q', subnet: '10.0.0.128/25' }],
  )
  t.same(pools.statuses, [201, 400])
  t.match(pools.errors, /overlaps pool 1/)
  const apart = await both(
    ['POST', '/ipam/pools', { name: 'r', subnet: '10.1.0.0/24' }],
    ['POST', '/ipam/pools', { name: 's', subnet: '10.2.0.0/24' }],
  )
  t.same(apart.statuses, [201, 201], 'the number that both gave is given to one')
  const named = await both(
    ['POST', '/ipam/pools', { name: 't', subnet: '10.3.0.0/24' }],
    ['POST', '/ipam/pools', { name: 't', subnet: '10.4.0.0/24' }],
  )
  t.same([named.statuses, named.errors], [[201, 409], 'pool t already exists'])
})

t.test('a quota is that of the cluster', async (t) => {
  const { given, both, held } = await pair(t)
  const { id } = (await given('POST', '/tenant', { name: 'a' })).tenant
  await given('PUT', `/tenant/${id}/quota`, { keys: 1, ip_pools: 2, ip_allocations: 1 })
  const keys = await both(['POST', `/tenant/${id}/keys`, { label: 'k' }])
  t.same([keys.statuses, keys.errors], [[201, 409], 'quota exceeded: keys (1 of 1)'])
  const pools = await both(
    ['POST', '/ipam/pools', { name: 'p', subnet: '10.1.0.0/24', tenant_id: id }],
    ['POST', '/ipam/pools', { name: 'q', subnet: '10.2.0.0/24', tenant_id: id }],
  )
  t.same(pools.statuses, [201, 201])
  const taken = await both(['POST', '/ipam/allocate', { pool_id: 1 }], ['POST', '/ipam/allocate', { pool_id: 2 }])
  t.same([taken.statuses, taken.errors], [[200, 409], 'quota exceeded: ip_allocations (1 of 1)'])
  t.equal(held('ipam_allocations').length, 1)
})

t.test('what rests on what goes is refused, or goes with it', async (t) => {
  const { given, both, held } = await pair(t)
  const { id } = (await given('POST', '/tenant', { name: 'a' })).tenant
  const { pool } = await given('POST', '/ipam/pools', { name: 'p', subnet: '10.1.0.0/24', tenant_id: id })
  const released = await both(['DELETE', `/ipam/pools/${pool.id}`], ['POST', '/ipam/allocate', { pool_id: pool.id }])
  t.ok(released.statuses.join() === '200,404' || released.statuses.join() === '200,200', released.statuses.join())
  t.same(held('ipam_allocations'), [])
  const gone = await both(
    ['DELETE', `/tenant/${id}`],
    ['POST', '/ipam/pools', { name: 'q', subnet: '10.2.0.0/24', tenant_id: id }],
  )
  t.ok(['200,404', '200,201'].includes(gone.statuses.join()), gone.statuses.join())
  t.same([held('tenants_tenants'), held('ipam_pools')], [[], []])
})

t.test('no address is given out twice, and none is left over', async (t) => {
  const { given, both, held } = await pair(t)
  const { pool } = await given('POST', '/ipam/pools', { name: 'p', subnet: '10.1.0.0/28' })
  for (let n = 0; n < 7; n++) {
    t.same((await both(['POST', '/ipam/allocate', { pool_id: pool.id }])).statuses, [200, 200])
  }
  t.equal(new Set(held('ipam_allocations').map(({ ip }) => ip)).size, 14)
  t.same((await both(['POST', '/ipam/allocate', { pool_id: pool.id }])).statuses, [409, 409])
})
