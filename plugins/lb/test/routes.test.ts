/** REST of the load balancer. */
import { sql } from 'drizzle-orm'
import t from 'tap'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { queries } from '../queries.ts'
import { LB, lbArea } from './area.ts'

const CHECK = { type: '', interval_sec: 5, timeout_sec: 2, threshold: 3, http_path: '/' }
const WEB = {
  id: 'web',
  frontend_ip: '192.0.2.10',
  frontend_port: 0,
  protocol: 'tcp',
  algorithm: 'maglev',
  dsr_enabled: false,
  health_check: CHECK,
  backends: [],
}
const NONE = 'VIP none not found'

t.test('lb-01 lb-02 lb-06 lb-08 lb-22 D2 D4 D75 a VIP is made, listed, read and deleted', async (t) => {
  const { call, held, entry, events } = await lbArea(t)
  t.same((await call('GET', LB)).body, { load_balancers: [] })
  const input = { id: 'web', frontend_ip: '192.0.2.10', algorithm: 'maglev' }
  const made = await call('POST', LB, input)
  t.same([made.status, made.body], [201, { status: 'created', load_balancer: WEB }])
  t.ok(made.headers['x-event-id'])
  t.same(held(), ['lb/address/eth0/192.0.2.10/32', 'lb/vip/web'])
  const key = 'lb/vip/web'
  const kernel = { kind: 'vip', key, id: 'web', address: '192.0.2.10', port: 0, protocol: 'tcp', algorithm: 'maglev' }
  t.same(entry('web'), { ...kernel, dsr: false, backends: [] })
  t.same((await call('GET', LB)).body, { load_balancers: [WEB] })
  t.same((await call('GET', `${LB}/web`)).body, { load_balancer: WEB })
  const gone = await call('DELETE', `${LB}/web`)
  t.same([gone.status, gone.body, held()], [200, { status: 'deleted', id: 'web' }, []])
  for (const method of ['GET', 'DELETE']) {
    const answer = await call(method, `${LB}/none`)
    t.same([answer.status, answer.body], [404, { error: NONE }])
  }
  t.same(events(), ['vip.created web', 'vip.deleted web'])
})

t.test('lb-04 lb-05 each algorithm and protocol is taken, and what was given is answered', async (t) => {
  const { add, entry, vip } = await lbArea(t)
  const all = ['round-robin', 'least-conn', 'source-hash', 'weighted', 'maglev', 'consistent-hash']
  for (const [n, algorithm] of all.entries()) {
    for (const protocol of ['tcp', 'udp']) {
      const id = `${algorithm}.${protocol}`
      await add({ id, frontend_ip: '2001:DB8:0::10', frontend_port: 1000 + n, protocol, algorithm, dsr_enabled: true })
      t.match(await vip(id), {
        frontend_ip: '2001:db8::10',
        frontend_port: 1000 + n,
        protocol,
        algorithm,
        dsr_enabled: true,
      })
      t.match(entry(id), { address: '2001:db8::10', port: 1000 + n, protocol, algorithm, dsr: true })
    }
  }
  const health_check = { type: 'http', interval_sec: 9, timeout_sec: 8, threshold: 7, http_path: '/up?full=1' }
  t.same((await add({ id: 'checked', health_check })).health_check, health_check)
})

t.test('lb-07 PUT is a 501 that says what to do instead, whatever it is asked', async (t) => {
  const { call, add, unchanged } = await lbArea(t)
  await add()
  for (const [id, body] of [
    ['web', { algorithm: 'maglev' }],
    ['web', {}],
    ['web', undefined],
    ['none', {}],
  ] as const) {
    const answer = await unchanged(() => call('PUT', `${LB}/${id}`, body))
    t.same(
      [answer.status, answer.body],
      [501, { error: 'a VIP cannot be changed: delete it and recreate it as it shall be' }],
    )
  }
})

t.test('lb-09 lb-11 lb-12 lb-13 state-08 D3 D6 D76 backends join, are told of, and leave', async (t) => {
  const { call, add, vip, entry, served, events, plane } = await lbArea(t)
  await add()
  const joined = await call('POST', `${LB}/web/backends`, { id: 'b1', ip: '10.0.0.1', port: 8080, weight: 5 })
  t.same([joined.status, joined.body], [200, { status: 'added', vip_id: 'web', backend_id: 'b1' }])
  await call('POST', `${LB}/web/backends`, { id: 'a', ip: '10.0.0.2' })
  Object.assign(plane, {
    balancer: {
      ...plane.balancer,
      activeConnections: (of: string, id: string) => (of === 'web' && id === 'b1' ? 7 : 0),
    },
  })
  const b1 = { id: 'b1', ip: '10.0.0.1', port: 8080, weight: 5, healthy: true, active_conns: 7 }
  const a = { id: 'a', ip: '10.0.0.2', port: 80, weight: 1, healthy: true, active_conns: 0 }
  t.same((await vip('web')).backends, [a, b1])
  const list = (await call('GET', LB)).body.load_balancers as { backends: object[] }[]
  t.same(list[0]?.backends, [a, b1])
  t.same(entry('web')?.backends, [
    { id: 'a', address: '10.0.0.2', port: 80, weight: 1, state: 'up' },
    { id: 'b1', address: '10.0.0.1', port: 8080, weight: 5, state: 'up' },
  ])
  for (const [healthy, state] of [
    [false, 'down'],
    [false, 'down'],
    [true, 'up'],
  ] as const) {
    const answer = await call('POST', `${LB}/web/backends/b1/health`, { healthy })
    t.same([answer.status, answer.body], [200, { status: 'updated', vip_id: 'web', backend_id: 'b1', healthy }])
    t.same(served('web'), ['a up', `b1 ${state}`])
    t.match((await vip('web')).backends[1], { id: 'b1', healthy })
  }
  const left = await call('DELETE', `${LB}/web/backends/b1`)
  t.same([left.status, left.body], [200, { status: 'removed', vip_id: 'web', backend_id: 'b1' }])
  t.same((await vip('web')).backends, [a])
  const changed = ['backend.state_changed b1 unhealthy', 'backend.state_changed b1 healthy']
  t.same(events(), ['vip.created web', 'backend.added b1', 'backend.added a', ...changed, 'backend.removed b1'])
})

t.test('D18 the ETag is that of what is stored: health changes it, connections do not', async (t) => {
  const { call, add, join, plane } = await lbArea(t)
  await add()
  await join('web', 1)
  const tag = async () => String((await call('GET', `${LB}/web`)).headers.etag)
  const first = await tag()
  t.match(first, /^"[0-9a-f]{32}"$/)
  Object.assign(plane, { balancer: { ...plane.balancer, activeConnections: () => 5 } })
  t.equal(await tag(), first)
  const again = await call('GET', `${LB}/web`, undefined, { 'if-none-match': first })
  t.same([again.status, again.text], [304, ''])
  await call('POST', `${LB}/web/backends/b1/health`, { healthy: false })
  t.not(await tag(), first)
  t.equal((await call('DELETE', `${LB}/web`, undefined, { 'if-match': first })).status, 412)
  t.equal((await call('DELETE', `${LB}/web`, undefined, { 'if-match': await tag() })).status, 200)
})

t.test('what the kernel refuses was never so', async (t) => {
  const { call, add, join, unchanged, plane, events } = await lbArea(t)
  const refused = async (method: string, path: string, body?: object) => {
    plane.refuse = new KernelRefusal('made up')
    const answer = await unchanged(() => call(method, `${LB}${path}`, body))
    t.match(answer, { status: 409, body: { error: /made up/ } }, `${method} ${path}`)
  }
  await refused('POST', '', { id: 'web', frontend_ip: '192.0.2.10', algorithm: 'maglev' })
  await add()
  await refused('POST', '/web/backends', { id: 'b1', ip: '10.0.0.1' })
  await join('web', 1)
  await refused('POST', '/web/backends/b1/health', { healthy: false })
  await refused('DELETE', '/web/backends/b1')
  await refused('DELETE', '/web')
  t.same(events(), ['vip.created web', 'backend.added b1'])
})

t.test('gate-05 D22 without the feature every call is a 403 that names it', async (t) => {
  const { call, add } = await lbArea(t, { licensed: false })
  await t.rejects(add())
  for (const [method, path] of [
    ['GET', ''],
    ['POST', ''],
    ['GET', '/web'],
    ['DELETE', '/web/backends/b1'],
    ['POST', '/web/backends/b1/health'],
  ] as const) {
    t.match(await call(method, `${LB}${path}`, {}), { status: 403, body: { error: /Load Balancer/ } })
  }
})

t.test('metrics tell of states and limits', async (t) => {
  const { call, add, join } = await lbArea(t)
  await add()
  for (const n of [1, 2, 3, 4]) await join('web', n)
  await call('POST', `${LB}/web/backends/b1/health`, { healthy: false })
  await call('DELETE', `${LB}/web/backends/b2`)
  const { text } = await call('GET', '/api/v1/metrics')
  for (const line of ['vips 1', 'vips_limit 1024', 'backends{state="up"} 2', 'accelerated 1', 'waiting 0']) {
    t.ok(text.includes(`stratum_lb_${line}\n`), line)
  }
  for (const state of ['down', 'draining']) t.ok(text.includes(`stratum_lb_backends{state="${state}"} 1\n`), state)
})

t.test('what a change costs does not depend on how much there is', async (t) => {
  const { agent } = await lbArea(t)
  const db = agent.store.read
  // Read everything on purpose: one row, pages of all, what is counted, or what each of conntrack's entries is compared with.
  const whole = new Set(['place', 'vipCount', 'counts', 'held', 'draining', 'pending', 'fronts'])
  for (const [name, statement] of Object.entries(queries(db))) {
    const text = statement.getQuery().sql.replaceAll('?', '1')
    const rows = db.all<{ detail: string }>(sql.raw(`explain query plan ${text}`))
    const plan = rows.map(({ detail }) => detail).join('; ')
    t.notMatch(plan, /TEMP B-TREE/, `${name}: ${plan}`)
    if (!whole.has(name)) t.notMatch(plan, /\bSCAN /, `${name}: ${plan}`)
  }
})
