/** What IPAM offers to other areas: pools and addresses that have an owner. */
import t from 'tap'
import * as offers from '../offers.ts'
import { allocateAddress, createPool, deletePool, releaseAddress } from '../rules.ts'
import { allocations, free, pools } from '../tables.ts'
import { database, intervals } from './store.ts'

const INPUT = { name: 'lab', subnet: '10.0.0.0/29', gateway: '10.0.0.1' }

t.test('D9 D44 what has an owner is refused to the API and removed by its maker', async (t) => {
  const db = database(t)
  const { id } = offers.createPool(db, INPUT, 'network net-1')
  t.same(intervals(db, id), ['10.0.0.2-10.0.0.6'])
  await t.rejects(deletePool(db, String(id)), { status: 409, message: /belongs to network net-1/ })
  const label = (ip: string) => ({ hostname: `h-${ip}`, owner: `endpoint ${ip}` })
  t.match(offers.allocate(db, { pool: id, ip: '10.0.0.4', label }), { ip: '10.0.0.4', hostname: 'h-10.0.0.4' })
  t.match(offers.allocate(db, { pool: id, label }), { ip: '10.0.0.2', hostname: 'h-10.0.0.2' })
  t.same(intervals(db, id), ['10.0.0.3-10.0.0.3', '10.0.0.5-10.0.0.6'])
  t.throws(() => releaseAddress(db, { pool_id: id, ip: '10.0.0.4' }), { message: /endpoint 10\.0\.0\.4/ })
  const reserved = allocateAddress(db, { pool_id: id }).result
  t.equal(reserved.ip, '10.0.0.3')
  for (const [ip, message] of [
    ['10.0.0.4', /is taken by endpoint 10\.0\.0\.4/],
    ['10.0.0.3', new RegExp(`is taken by allocation ${reserved.id}`)],
    ['10.0.0.1', /is not for allocation/],
    ['10.0.0.7', /is not for allocation/],
  ] as const) {
    t.throws(() => offers.allocate(db, { pool: id, ip, label }), { message }, ip)
  }
  t.throws(() => offers.allocate(db, { pool: id, ip: 'x', label }), { message: 'ip: not an IP address' })
  t.throws(() => offers.allocate(db, { pool: 9, label }), { message: 'pool 9 not found' })
  offers.release(db, id, '10.0.0.4')
  t.throws(() => offers.release(db, id, '10.0.0.4'), { message: /has no allocation/ })
  await offers.removePool(db, id)
  t.same(
    [pools, allocations, free].map((table) => db.select().from(table).all().length),
    [0, 0, 0],
  )
})

t.test('D20 pools with an owner do not count', async (t) => {
  const db = database(t)
  offers.createPool(db, INPUT, 'network net-1')
  createPool(db, { name: 'b', subnet: '10.1.0.0/24' }, 1)
  t.throws(() => createPool(db, { name: 'c', subnet: '10.2.0.0/24' }, 1), { message: 'limit reached: pools (1)' })
})

t.test('who overlaps is found by tenant and family', async (t) => {
  const db = database(t)
  offers.createPool(db, { name: 'low', subnet: '10.0.0.0/16', tenant_id: 'a' }, '')
  offers.createPool(db, { name: 'high', subnet: '10.2.0.0/16', tenant_id: 'a' }, '')
  const over = (cidr: string, tenant = 'a') => offers.overlapping(db, tenant, cidr)
  t.equal(over('10.0.255.0/24'), 'pool 1 (low, 10.0.0.0/16)')
  t.equal(over('10.0.0.0/8'), 'pool 2 (high, 10.2.0.0/16)')
  t.equal(over('10.1.0.0/16'), undefined)
  t.equal(over('10.0.0.0/8', 'b'), undefined)
  t.equal(over('::/0'), undefined)
  t.throws(() => over('10.0.0.1/8'), { message: /host bits/ })
})

t.test('ipam-11 a large pool goes in portions, and others get their turn', async (t) => {
  const db = database(t)
  const { id } = offers.createPool(db, { name: 'big', subnet: '10.0.0.0/16' }, '')
  for (let n = 0; n < 9000; n++) {
    offers.allocate(db, {
      pool: id,
      ip: `10.0.${n >> 7}.${((n & 127) << 1) | 1}`,
      label: () => ({ hostname: '', owner: '' }),
    })
  }
  t.equal(intervals(db, id).length, 9000)
  let turns = 0
  const timer = setInterval(() => turns++, 0)
  await deletePool(db, String(id))
  clearInterval(timer)
  t.ok(turns > 2, `${turns} turns`)
  t.same(db.select().from(free).all(), [])
  t.same(db.select().from(allocations).all(), [])
})

t.test('the event of a public address is an allocation', async (t) => {
  const data = { ip: '192.0.2.1', range_id: 'rng-1', tenant_id: '', used_by: 'vm', mac: '02:ce:c0:00:02:01' }
  t.same(offers.publicAddressEvent('created', data), {
    type: 'allocation.created',
    area: 'ipam',
    resource: '/api/v1/routed-addresses/rng-1',
    data,
  })
})
