/** REST of bandwidth, over a plane in memory. */
import t from 'tap'
import type { QuotaEntry, Shape } from '../../../dataplane/shaping/entries.ts'
import { type BuiltAgent, buildArea } from '../../../test/build.ts'
import { BANDWIDTH, macOf, POOLS, QUOTAS } from './lab.ts'

const MAC = macOf(1)
const held = ({ plane }: BuiltAgent, mac = MAC) => plane.entries.get(`bandwidth/shape/${mac}`) as Shape | undefined
const quotaHeld = (it: BuiltAgent): QuotaEntry | undefined => held(it)?.quota
const build = (t: Parameters<typeof buildArea>[0], options = {}) => buildArea(t, 'bandwidth', options)

t.test('bw-01 bw-02 bw-03 bw-05 bw-21 a limit is made, listed, read, changed and deleted', async (t) => {
  const it = await build(t)
  const { call } = it
  t.same((await call('GET', BANDWIDTH)).body, { limits: [], pools: [] })
  t.equal((await call('GET', `${BANDWIDTH}?mac=${MAC}`)).status, 404)
  const made = await call('POST', BANDWIDTH, { id: 'web', target_mac: MAC.toUpperCase(), rate_bps: 100_000_000 })
  const limit = {
    id: 'web',
    target_mac: MAC,
    interface_id: 0,
    rate_bps: 100_000_000,
    burst_bytes: 125_000,
    guaranteed_bps: 0,
    direction: 'both',
    pool_id: '',
  }
  t.same([made.status, made.body], [200, { status: 'created', limit }])
  t.ok(made.headers['x-event-id'])
  t.same((await call('GET', BANDWIDTH)).body, { limits: [limit], pools: [] })
  t.same((await call('GET', `${BANDWIDTH}?mac=${MAC.replaceAll(':', '-')}`)).body, limit)
  t.match(held(it), { up: { rate: 100_000_000, burst: 125_000 }, down: { rate: 100_000_000 }, pool: 0 })
  const changed = await call('POST', BANDWIDTH, { id: 'web', target_mac: MAC, rate_bps: 1_000_000, direction: 'up' })
  t.match(changed.body, { status: 'updated', limit: { rate_bps: 1_000_000, burst_bytes: 15_000, direction: 'up' } })
  t.equal(held(it)?.down, undefined)
  const moved = await call('POST', BANDWIDTH, { id: 'web', target_mac: macOf(2), rate_bps: 1_000_000 })
  t.equal(moved.status, 200)
  t.same([held(it), held(it, macOf(2))?.up?.rate], [undefined, 1_000_000], 'the MAC before it is unshaped')
  t.same((await call('DELETE', `${BANDWIDTH}/web`)).body, { status: 'deleted', id: 'web' })
  t.equal((await call('DELETE', `${BANDWIDTH}/web`)).status, 404)
  t.equal(held(it, macOf(2)), undefined)
})

t.test('bw-04 bw-05 D94 what is missing or cannot be is a 400 that says what, and changes nothing', async (t) => {
  const it = await build(t)
  const { call, plane } = it
  const rate_bps = 1_000_000
  for (const [body, why] of [
    [{ target_mac: MAC, rate_bps }, /id is required/],
    [{ id: 'a', rate_bps }, /target_mac is required/],
    [{ id: 'a', target_mac: MAC }, /rate_bps is required/],
    [{ id: 'a', target_mac: 'no', rate_bps }, /target_mac: not a MAC address/],
    [{ id: 'a', target_mac: '01:00:00:00:00:01', rate_bps }, /target_mac: is a multicast/],
    [{ id: 'a', target_mac: MAC, rate_bps: 0 }, /rate_bps/],
    [{ id: 'a', target_mac: MAC, rate_bps: -1 }, /rate_bps/],
    [{ id: 'a', target_mac: MAC, rate_bps: '5' }, /rate_bps/],
    [{ id: 'a', target_mac: MAC, rate_bps, direction: 'left' }, /direction/],
    [{ id: 'a', target_mac: MAC, rate_bps, guaranteed_bps: rate_bps + 1 }, /guaranteed_bps/],
  ] as const) {
    const answer = await call('POST', BANDWIDTH, body)
    t.same([answer.status, why.test(String(answer.body.error))], [400, true], answer.text)
  }
  t.equal((await call('POST', BANDWIDTH, { id: 'a', target_mac: MAC, pool_id: 'none' })).status, 404)
  t.same([plane.entries.size, (await call('GET', BANDWIDTH)).body], [0, { limits: [], pools: [] }])
  await call('POST', BANDWIDTH, { id: 'a', target_mac: MAC, rate_bps })
  t.equal((await call('POST', BANDWIDTH, { id: 'b', target_mac: MAC, rate_bps })).status, 409, 'one for a MAC')
})

t.test('bw-08 bw-09 bw-10 bw-22 bw-23 D9 D95 pools and their members', async (t) => {
  const it = await build(t)
  const { call, plane } = it
  const pool = async () => ((await call('GET', BANDWIDTH)).body.pools as object[])[0]
  for (const body of [{ id: 'p' }, { total_bps: 5 }, { id: 'p', total_bps: 0 }])
    t.equal((await call('POST', POOLS, body)).status, 400)
  t.same((await call('POST', POOLS, { id: 'p', total_bps: 10_000_000, name: 'Shop' })).body, {
    status: 'created',
    id: 'p',
  })
  t.same(await pool(), { ID: 'p', Name: 'Shop', TotalBps: 10_000_000, AllocatedBps: 0, Members: [] })
  const member = { pool_id: 'p', member_mac: MAC, rate_bps: 8_000_000 }
  t.same((await call('POST', `${POOLS}/members`, member)).body, { status: 'added', pool_id: 'p', member_mac: MAC })
  t.same((await call('POST', `${POOLS}/members`, { ...member, member_mac: macOf(2) })).body.status, 'added')
  t.same(await pool(), {
    ID: 'p',
    Name: 'Shop',
    TotalBps: 10_000_000,
    AllocatedBps: 16_000_000,
    Members: [MAC, macOf(2)],
  })
  t.equal((await call('POST', `${POOLS}/members`, { ...member, rate_bps: 1_000_000 })).body.status, 'updated')
  t.match(held(it), { pool: 1, up: { rate: 1_000_000 }, down: { rate: 1_000_000 } })
  t.equal((await call('POST', `${POOLS}/members`, { ...member, pool_id: 'none' })).status, 404)
  await call('POST', POOLS, { id: 'other', total_bps: 1 })
  t.equal((await call('POST', `${POOLS}/members`, { ...member, pool_id: 'other' })).status, 409)
  t.same((await call('POST', POOLS, { id: 'p', total_bps: 500_000 })).body, { status: 'updated', id: 'p' })
  t.same(held(it)?.up?.rate, 500_000, 'no member has more than the total')
  const limit = { id: 'l', target_mac: macOf(3), pool_id: 'p', guaranteed_bps: 300_000 }
  t.equal((await call('POST', BANDWIDTH, limit)).status, 200)
  const much = await call('POST', BANDWIDTH, { ...limit, id: 'm', target_mac: macOf(4) })
  t.same(
    [much.status, much.body.error],
    [
      409,
      'pool p has 500000 bit/s, and its members would be guaranteed 600000; raise total_bps or lower guaranteed_bps',
    ],
  )
  t.equal((await call('POST', POOLS, { id: 'p', total_bps: 200_000 })).status, 409)
  await call('POST', BANDWIDTH, { id: 'n', target_mac: macOf(5), rate_bps: 400_000, guaranteed_bps: 400_000 })
  await call('POST', `${POOLS}/members`, { pool_id: 'p', member_mac: macOf(5) })
  t.match(held(it, macOf(5)), { pool: 1, up: { rate: 400_000, guaranteed: 0 } }, 'guaranteed of no pool')
  t.equal((await call('DELETE', `${BANDWIDTH}/n`)).status, 200)
  t.equal((await call('DELETE', `${POOLS}/p`)).status, 409, 'a limit names it')
  t.equal((await call('DELETE', `${POOLS}/p/members/${macOf(3)}`)).status, 409)
  const left = await call('DELETE', `${POOLS}/p/members/${MAC}`)
  t.same(left.body, { status: 'removed', pool_id: 'p', member_mac: MAC })
  t.equal((await call('DELETE', `${POOLS}/p/members/${MAC}`)).status, 404)
  t.equal(held(it), undefined)
  await call('DELETE', `${BANDWIDTH}/l`)
  t.same((await call('DELETE', `${POOLS}/p`)).body, { status: 'deleted', id: 'p' })
  t.equal((await call('DELETE', `${POOLS}/p`)).status, 404)
  t.equal(held(it, macOf(2)), undefined, 'former members are unshaped')
  await call('DELETE', `${POOLS}/other`)
  await it.agent.pipeline.exclusively(async () => {})
  t.same(
    [...plane.entries.keys()].filter((key) => !key.includes('/link/')),
    [],
  )
})

t.test('bw-12 bw-13 bw-14 bw-15 bw-17 bw-18 bw-20 quotas', async (t) => {
  const it = await build(t, { now: () => new Date('2030-05-06T07:08:09Z') })
  const { call, plane } = it
  t.same((await call('GET', QUOTAS)).body, { quotas: [] })
  const none = await call('GET', `${QUOTAS}/${MAC}`)
  t.same([none.status, none.body], [404, { error: `${MAC} has no quota` }])
  const body = { id: 'q', mac: MAC, monthly_limit_bytes: 1000 }
  for (const wrong of [
    { id: 'q', mac: MAC },
    { ...body, monthly_limit_bytes: 0 },
    { ...body, monthly_limit_bytes: -5 },
    { ...body, action: 'explode' },
    { ...body, mac: 'x' },
    { mac: MAC, monthly_limit_bytes: 5 },
  ])
    t.equal((await call('POST', QUOTAS, wrong)).status, 400, JSON.stringify(wrong))
  const quota = {
    id: 'q',
    mac: MAC,
    monthly_limit_bytes: 1000,
    used_bytes: 0,
    reset_day: 1,
    action: 'notify',
    enforced: false,
    current_period: '2030-05',
    status: 'ok',
    remaining_bytes: 1000,
    throttled: false,
  }
  t.same((await call('POST', QUOTAS, body)).body, { status: 'created', quota })
  const { number = 0 } = quotaHeld(it) ?? {}
  t.match(held(it)?.quota, { limit: 1000, warn: 800, action: 'count' })
  const month = 2030 * 12 + 4
  for (const [used, status] of [
    [799, 'ok'],
    [800, 'warning'],
    [1000, 'exceeded'],
    [5000, 'exceeded'],
  ] as const) {
    plane.used.set(number, { used, month })
    const left = Math.max(0, 1000 - used)
    t.same((await call('GET', `${QUOTAS}/${MAC}`)).body, {
      quota: { ...quota, used_bytes: used, status, remaining_bytes: left },
    })
  }
  const enforced = await call('POST', QUOTAS, { ...body, action: 'throttle', enforced: true })
  t.match(enforced.body, { status: 'updated', quota: { status: 'exceeded', throttled: true, used_bytes: 5000 } })
  t.equal((await call('POST', QUOTAS, { ...body, id: 'other' })).status, 409, 'one for a MAC')
  const { slot } = quotaHeld(it) ?? {}
  await call('POST', QUOTAS, { ...body, mac: macOf(3) })
  t.not(held(it, macOf(3))?.quota?.slot, slot, 'another MAC, another slot')
  await call('POST', QUOTAS, body)
  t.same(((await call('GET', `${QUOTAS}?mac=${macOf(2)}`)).body.quotas as object[]).length, 0)
  t.same(((await call('GET', `${QUOTAS}?mac=${MAC}`)).body.quotas as object[]).length, 1)
  t.same((await call('DELETE', `${QUOTAS}/${MAC}`)).body, { status: 'deleted', id: 'q', mac: MAC })
  t.equal((await call('DELETE', `${QUOTAS}/${MAC}`)).status, 404)
})

t.test('D7 ids are of the operator, but none of a route', async (t) => {
  const { call } = await build(t)
  const id = 'a'.repeat(64)
  t.equal((await call('POST', POOLS, { id, total_bps: 5 })).status, 200)
  t.equal((await call('POST', BANDWIDTH, { id, target_mac: MAC, pool_id: id })).status, 200)
  for (const wrong of ['pools', 'quotas', 'default', 'batch', '', '-a', 'a b', `${id}a`]) {
    t.equal((await call('POST', POOLS, { id: wrong, total_bps: 5 })).status, 400, wrong)
    t.equal((await call('POST', BANDWIDTH, { id: wrong, target_mac: macOf(2), rate_bps: 5 })).status, 400, wrong)
    t.equal((await call('POST', QUOTAS, { id: wrong, mac: MAC, monthly_limit_bytes: 5 })).status, 400, wrong)
  }
})

t.test('D118 a clock that is early after a boot reopens no month', async (t) => {
  let now = new Date('2030-05-06T07:08:09Z')
  const it = await build(t, { now: () => now })
  const { call, plane } = it
  await call('POST', QUOTAS, { id: 'q', mac: MAC, monthly_limit_bytes: 1000 })
  const { number = 0 } = quotaHeld(it) ?? {}
  plane.used.set(number, { used: 700, month: 2030 * 12 + 4 })
  await call('POST', QUOTAS, { id: 'q', mac: MAC, monthly_limit_bytes: 2000 })
  plane.used.delete(number)
  now = new Date('1970-01-01T00:00:30Z')
  t.match((await call('GET', `${QUOTAS}/${MAC}`)).body.quota, { used_bytes: 700, current_period: '2030-05' })
})

t.test('D112 what happens to pools and members is told under their names', async (t) => {
  const { call, agent } = await build(t)
  const { latest } = agent.outbox.bounds()
  const member = { pool_id: 'p', member_mac: MAC }
  await call('POST', POOLS, { id: 'p', total_bps: 5 })
  await call('POST', POOLS, { id: 'p', total_bps: 6 })
  await call('POST', `${POOLS}/members`, member)
  await call('POST', `${POOLS}/members`, { ...member, rate_bps: 1 })
  await call('DELETE', `${POOLS}/p/members/${MAC}`)
  await call('DELETE', `${POOLS}/p`)
  t.same(
    agent.outbox
      .after(latest, 1000)
      .map(({ type }) => type)
      .filter((type) => /^(bandwidth_pool|pool_member)\./.test(type)),
    [
      'bandwidth_pool.created',
      'bandwidth_pool.updated',
      'pool_member.added',
      'pool_member.updated',
      'pool_member.removed',
      'bandwidth_pool.deleted',
    ],
  )
})

t.test('a pool of more members than a page is shown whole', async (t) => {
  const { call } = await build(t, { config: { api_rate_limit: '10000000', api_rate_burst: '1000000' } })
  await call('POST', POOLS, { id: 'p', total_bps: 1000 })
  const many = 501
  const macs = Array.from(
    { length: many },
    (_, at) => `02:00:00:01:${[at >> 8, at & 255].map((n) => n.toString(16).padStart(2, '0')).join(':')}`,
  )
  for (const [at, mac] of macs.entries()) {
    await call('POST', `${POOLS}/members`, { pool_id: 'p', member_mac: mac, rate_bps: 2 })
    await call('POST', BANDWIDTH, { id: `l${at}`, target_mac: mac, pool_id: 'p', rate_bps: 1 })
  }
  const { pools, limits } = (await call('GET', BANDWIDTH)).body as { pools: object[]; limits: object[] }
  t.same(pools, [{ ID: 'p', Name: '', TotalBps: 1000, AllocatedBps: many, Members: macs }])
  t.equal(limits.length, many)
})

t.test('bw-19 state-13 D96 a quota is told of once, and begins anew with the month in UTC', async (t) => {
  let now = new Date('2030-01-31T23:00:00Z')
  const it = await build(t, { now: () => now })
  const { call, plane, agent } = it
  const { latest } = agent.outbox.bounds()
  const told = () =>
    agent.outbox
      .after(latest, 1000)
      .filter(({ type }) => type === 'quota.state_changed')
      .map(({ data }) => (({ from, to }) => `${from} ${to}`)(data as { from: string; to: string }))
  await call('POST', QUOTAS, { id: 'q', mac: MAC, monthly_limit_bytes: 1000, action: 'block', enforced: true })
  const { number = 0 } = quotaHeld(it) ?? {}
  const use = async (used: number, month: number, expected: string[]) => {
    plane.used.set(number, { used, month })
    plane.tellQuota()
    const signal = AbortSignal.timeout(20_000)
    while (told().length < expected.length) {
      signal.throwIfAborted()
      await new Promise((wait) => setTimeout(wait, 20))
    }
    t.same(told(), expected)
  }
  await use(850, 2030 * 12, ['ok warning'])
  await use(1100, 2030 * 12, ['ok warning', 'warning exceeded'])
  now = new Date('2030-02-01T00:00:00Z')
  t.match((await call('GET', `${QUOTAS}/${MAC}`)).body.quota, {
    used_bytes: 0,
    status: 'ok',
    current_period: '2030-02',
  })
  await use(10, 2030 * 12 + 1, ['ok warning', 'warning exceeded', 'exceeded ok'])
  t.match((await call('GET', `${QUOTAS}/${MAC}`)).body.quota, { used_bytes: 10, status: 'ok' })
})
