/** Billing over REST: states, what they leave in the plane, who may do what. */
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { billing, NOW, P } from './area.ts'

const ROUTED = 0x400000
const MONTH = '2030-01-01T00:00:00.000Z/2030-02-01T00:00:00.000Z'

t.test('D107 a tenant goes through its states, and a repeated action changes nothing', async (t) => {
  const { tenant, act, show, events, unchanged } = await billing(t)
  const id = await tenant('acme')
  events()
  const zero = { period: MONTH, bytes_total: 0, gb: 0, p95_mbps: 0 }
  const active = { tenant_id: id, state: 'active', limit_bps: 0, block_traffic: false }
  t.same(await show(id), { ...active, ...zero })

  const limited = { ...active, state: 'limited', limit_bps: 1_000_000 }
  const suspended = { ...active, state: 'suspended', suspended_at: NOW }
  const steps: [action: string, body: object | undefined, status: string, state: object][] = [
    ['limit', { rate_bps: 1_000_000 }, 'limited', limited],
    ['unlimit', undefined, 'unlimited', active],
    ['suspend', undefined, 'suspended', suspended],
    ['suspend', { block_traffic: true }, 'suspended', { ...suspended, block_traffic: true }],
    ['suspend', {}, 'suspended', { ...suspended, block_traffic: true }],
    ['limit', { rate_bps: 7 }, 'limited', { ...suspended, block_traffic: true, limit_bps: 7 }],
    ['suspend', { block_traffic: false }, 'suspended', { ...suspended, limit_bps: 7 }],
    ['resume', undefined, 'resumed', { ...limited, limit_bps: 7 }],
    ['unlimit', undefined, 'unlimited', active],
  ]
  const resource = `${P}/billing/tenants/${id}`
  for (const [action, body, status, state] of steps) {
    const answer = await act(id, action, body)
    t.equal(answer.status, 200, answer.text)
    t.same(answer.body, { status, tenant_id: id, billing: { ...state, ...zero } }, `${action} ${JSON.stringify(body)}`)
    t.same(
      events().filter(({ type }) => type.startsWith('billing.')),
      [{ type: 'billing.updated', resource, data: state }],
      'one event, with what is stored',
    )
    t.same(await show(id), answer.body.billing, 'which is what GET answers')
    const again = await unchanged2(action, body)
    t.same(again.body, answer.body, `${action} again`)
  }

  /** The same once more: 200, and no row or entry is another. */
  async function unchanged2(action: string, body: object | undefined) {
    const before = await show(id)
    const answer = await act(id, action, body)
    t.equal(answer.status, 200)
    t.same(await show(id), before)
    events()
    return answer
  }
  await unchanged(() => show(id))
})

t.test('err-03 D107 what cannot be read, and tenants that are not there', async (t) => {
  const { tenant, call, act, unchanged } = await billing(t)
  const id = await tenant('acme')
  const rows: [action: string, body: unknown, error: RegExp][] = [
    ['limit', {}, /rate_bps/],
    ['limit', { rate_bps: 0 }, /rate_bps/],
    ['limit', { rate_bps: -5 }, /rate_bps/],
    ['limit', { rate_bps: 1.5 }, /rate_bps/],
    ['limit', { rate_bps: '1000' }, /rate_bps/],
    ['limit', { rate_bps: 2 ** 53 }, /rate_bps/],
    ['limit', [], /object/],
    ['suspend', { block_traffic: 'yes' }, /block_traffic/],
    ['suspend', { block_traffic: 1 }, /block_traffic/],
  ]
  for (const [action, body, error] of rows) {
    const { status, body: answer } = await unchanged(() => act(id, action, body))
    t.equal(status, 400, `${action} ${JSON.stringify(body)}`)
    t.match(answer.error, error)
  }
  t.equal((await act(id, 'limit', { rate_bps: Number.MAX_SAFE_INTEGER })).status, 200)
  for (const [action, body] of [['suspend'], ['resume'], ['limit', { rate_bps: 1 }], ['unlimit']] as const) {
    const { status, body: answer } = await unchanged(() => act('nobody', action, body))
    t.equal(status, 404, action)
    t.match(answer.error, 'tenant nobody not found')
  }
  t.equal((await call('GET', `${P}/billing/tenants/nobody`)).status, 404)
  for (const path of ['/billing', '/billing/tenants', `/billing/tenants/${id}/pay`]) {
    t.equal((await call('GET', `${P}${path}`)).status, 404, path)
  }
})

t.test('tkey-03 tkey-06 tkey-14 a key of a tenant reads its own billing state and changes nothing', async (t) => {
  const { agent, tenant, call, act, show, unchanged } = await billing(t)
  const [own, other] = [await tenant('own'), await tenant('other')]
  const suspended = { now: false }
  agent.credentials.keys.set('tk', () => {
    return { kind: 'tenant', label: 'key', tenantId: own, suspended: suspended.now }
  })
  const authorization = { authorization: 'Bearer tk_a1_S3cretS3cretS3cret' }
  const ask = (method: string, path: string, body?: unknown) =>
    unchanged(() => call(method, `${P}/billing/tenants/${path}`, body, authorization))
  const read = async () => {
    const { status, body } = await ask('GET', own)
    t.equal(status, 200)
    t.same(body.billing, await show(own))
  }
  await read()
  const outside = await ask('GET', other)
  t.equal(outside.status, 403)
  t.match(outside.body, { error: 'forbidden: a tenant key may only act on its own tenant' })
  const actions: [string, unknown][] = [
    ['suspend', {}],
    ['suspend', { block_traffic: true }],
    ['resume', undefined],
    ['limit', { rate_bps: 1000 }],
    ['unlimit', undefined],
  ]
  for (const [action, body] of actions) {
    const mine = await ask('POST', `${own}/${action}`, body)
    t.equal(mine.status, 403)
    t.match(mine.body.error, /^forbidden: this change is reserved for the operator/, action)
    const theirs = await ask('POST', `${other}/${action}`, body)
    t.equal(theirs.status, 403)
    t.match(theirs.body, { error: 'forbidden: a tenant key may only act on its own tenant' })
  }
  await act(own, 'suspend', { block_traffic: true })
  suspended.now = true
  await read()
})

t.test('D103 suspending a tenant is seen by everybody who asks for its status', async (t) => {
  const { tenant, call, act, show } = await billing(t)
  const id = await tenant('acme')
  await call('PUT', `${P}/tenant/${id}`, { status: 'suspended' })
  t.match(await show(id), { state: 'suspended', block_traffic: false })
  await act(id, 'resume')
  t.match(await show(id), { state: 'active' })
  await act(id, 'suspend')
  await call('PUT', `${P}/tenant/${id}`, { status: 'active' })
  t.match(await show(id), { state: 'active' }, 'it was resumed elsewhere')
  await act(id, 'suspend', { block_traffic: true })
  await call('PUT', `${P}/tenant/${id}`, { status: 'active' })
  t.match(
    await show(id),
    { state: 'suspended', block_traffic: true },
    'its traffic is blocked until it is resumed here',
  )
  await act(id, 'resume')
  t.match(await show(id), { state: 'active', block_traffic: false })
})

t.test('D107 limits and blocks hold for the nets of their tenant, also for those that come later', async (t) => {
  const { tenant, act, held, network, range, attach, detach, call } = await billing(t)
  const [acme, other] = [await tenant('acme'), await tenant('other')]
  const lan = await network('10.0.0.0/24', acme)
  await network('10.1.0.0/24', other)
  await network('10.2.0.0/24')
  await range('8.8.4.0/30', acme)
  await attach('vm1', { public_ip: '8.8.4.1' })
  t.same(held(), [], 'a tenant that is active asks for nothing')

  await act(acme, 'limit', { rate_bps: 5000 })
  const shared = [5000, false, 0]
  t.same(
    held(),
    [
      [1, ...shared],
      [ROUTED + 1, ...shared],
    ],
    'its nets share a bucket',
  )
  await network('10.3.0.0/24', acme)
  await attach('vm2', { public_ip: '8.8.4.2' })
  const all = (...what: [rate: number, blocked: boolean, bucket: number]) =>
    [1, 4, ROUTED + 1, ROUTED + 2].map((net) => [net, ...what])
  t.same(held(), all(5000, false, 0), 'as do those that come later')

  await act(other, 'limit', { rate_bps: 70 })
  t.same(held()[1], [2, 70, false, 1], 'another tenant has another bucket')
  await act(other, 'unlimit')
  await act(acme, 'suspend', { block_traffic: true })
  t.same(held(), all(5000, true, 0))
  await act(acme, 'unlimit')
  t.same(held(), all(0, true, 0))
  await act(acme, 'resume')
  t.same(held(), [])

  await act(acme, 'limit', { rate_bps: 9 })
  await call('DELETE', `${P}/networks/${lan}`)
  await detach('vm1')
  const left = [9, false, 0]
  t.same(held(), [
    [4, ...left],
    [ROUTED + 2, ...left],
  ])
})

t.test('D107 a NIC that keeps its public address alone is still limited', async (t) => {
  const { tenant, act, held, network, attach, range, call } = await billing(t)
  const acme = await tenant('acme')
  const lan = await network('10.0.0.0/24', acme)
  await range('8.8.4.0/30', acme)
  await attach('vm1', { network: lan, public_ip: 'auto' })
  await act(acme, 'limit', { rate_bps: 5000 })
  const nets = () => held().map(([net]) => net)
  t.same(nets(), [1])
  const { endpoints } = (await call('GET', `${P}/networks/${lan}/endpoints?state=bound`)).body
  const [bound] = endpoints as { id: string }[]
  t.equal((await call('POST', `${P}/networks/${lan}/endpoints/${bound?.id}/detach`)).status, 200)
  t.same(nets(), [1, ROUTED + 1])
})

t.test('err-11 what the kernel refuses leaves no state', async (t) => {
  const { tenant, act, plane, network, unchanged } = await billing(t)
  const acme = await tenant('acme')
  await network('10.0.0.0/24', acme)
  const { status } = await unchanged(() => {
    plane.refuse = new KernelRefusal('E2BIG')
    return act(acme, 'suspend', { block_traffic: true })
  })
  t.equal(status, 409)
})

t.test('err-11 while nothing can be counted, what was counted before is told, and changes go on', async (t) => {
  const clock = { now: Date.parse(NOW) }
  const { tenant, act, plane, network, attach, show } = await billing(t, { now: () => new Date(clock.now) })
  const acme = await tenant('acme')
  await attach('vm1', { network: await network('10.0.0.0/24', acme) })
  const reached = { upPackets: 1n, upBytes: 1000n, downPackets: 1n, downBytes: 500n }
  Object.assign(plane, { ports: { ...plane.ports, account: () => reached } })
  clock.now += 2000
  t.match(await show(acme), { bytes_total: 1500, gb: 0.0000015 })
  const { ports } = plane
  const account = () => {
    throw new Error('no map')
  }
  for (const [action, body] of [
    ['suspend', { block_traffic: true }],
    ['limit', { rate_bps: 5000 }],
  ] as const) {
    Object.assign(plane, { ports: { ...ports, account } })
    clock.now += 2000
    const answer = await act(acme, action, body)
    t.equal(answer.status, 200, action)
    t.match(answer.body.billing, { bytes_total: 1500 })
    Object.assign(plane, { ports })
  }
})

t.test('tenant-05 tenant-06 a tenant that is deleted takes its billing state along', async (t) => {
  const { tenant, call, act, held, network } = await billing(t)
  const acme = await tenant('acme')
  const lan = await network('10.0.0.0/24', acme)
  await act(acme, 'limit', { rate_bps: 5000 })
  await call('DELETE', `${P}/networks/${lan}`)
  t.equal((await call('DELETE', `${P}/tenant/${acme}`)).status, 200)
  t.equal((await call('GET', `${P}/billing/tenants/${acme}`)).status, 404)
  t.same(held(), [])
  const next = await tenant('next')
  await network('10.0.0.0/24', next)
  await act(next, 'limit', { rate_bps: 1 })
  t.equal(held()[0]?.[3], 0, 'its bucket is free again')
})
