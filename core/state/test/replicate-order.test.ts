/** A member that is behind, or whose store fails for a moment: what it holds is in the end what the cluster does. */
import { sql } from 'drizzle-orm'
import t, { type Test } from 'tap'
import { type Mate, openMates } from '../../../test/mates.ts'

const P = '/api/v1'
const only = ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants', 'gateway', 'float']
const config = { uplink: 'eth0', api_rate_limit: '10000000', api_rate_burst: '1000000' }
const pair = (t: Test) => openMates(t, ['n1', 'n2'], { only, config })

const add = async (mate: Mate, name: string) => (await mate.call('POST', `${P}/tenant`, { name })).status
const rename = async (mate: Mate, id: unknown, name: string) =>
  (await mate.call('PUT', `${P}/tenant/${id}`, { name })).status

t.test('a transaction that could not be begun leaves nothing in the way of the next', async (t) => {
  const { mates, revision } = await pair(t)
  const [one] = mates
  t.equal(await add(one, 'a'), 201)
  const { begin } = one.agent.store
  one.agent.store.begin = () => {
    one.agent.store.begin = begin
    throw new Error('disk is full')
  }
  t.equal(await add(one, 'b'), 500)
  t.same([await add(one, 'b'), revision()], [201, 2])
  one.agent.store.begin = () => {
    begin()
    throw new Error('it was begun all the same')
  }
  t.equal(await add(one, 'c'), 500)
  one.agent.store.begin = begin
  t.same([await add(one, 'c'), revision()], [201, 3])
})

t.test('a column that a member of an earlier version does not know stays as it is', async (t) => {
  const { mates } = await pair(t)
  const [one, two] = mates
  await add(one, 'a')
  await two.pump()
  const [{ status, ...known } = {}] = one.rows('tenants_tenants')
  await two.agent.store.write.run(sql`update tenants_tenants set status = 'suspended'`)
  await two.adopt('tenants_tenants', [{ after: { ...known, name: 'b' } }], [])
  t.equal(status, 'active')
  t.match(two.rows('tenants_tenants'), [{ name: 'b', status: 'suspended' }])
})

t.test('the number of a pool that is gone is known to all, and given by none again', async (t) => {
  const { mates, held } = await pair(t)
  const [one, two] = mates
  const pool = async (mate: Mate, subnet: string) =>
    ((await mate.call('POST', `${P}/ipam/pools`, { name: 'p', subnet })).body as { pool: { id: number } }).pool.id
  t.equal(await pool(one, '10.0.0.0/24'), 1)
  await one.call('DELETE', `${P}/ipam/pools/1`)
  t.same(held('ipam_counters'), [{ name: 'shared', value: 1 }])
  t.equal(await pool(two, '10.0.1.0/24'), 2, 'also by one that never had it')
})

t.test('a name that one gave up and another took before it heard of either', async (t) => {
  const { mates, held } = await pair(t)
  const [one, two] = mates
  await add(one, 'm')
  await add(one, 'b')
  for (const mate of mates) await mate.pump()
  const idOf = (name: string) => held('tenants_tenants').find((row) => row.name === name)?.id
  const [x, b] = [idOf('m'), idOf('b')]
  t.equal(await rename(one, x, 'n'), 200)
  t.equal(await add(one, 'm'), 201)
  t.equal(await rename(one, x, 'p'), 200)
  t.equal(await rename(two, b, 'n'), 200, 'the cluster has nothing against it')
  await two.pump(1)
  for (const mate of mates) {
    await mate.pump()
    t.same(mate.rows('tenants_tenants'), held('tenants_tenants'))
  }
  t.same([one.reloads, two.reloads], [0, 1])
})
