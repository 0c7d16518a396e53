/** What becomes of backends that were removed, and of everything when the agent starts anew. */
import t from 'tap'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { scratch } from '../../../test/build.ts'
import { LB, type LbArea, type LbOptions, lbArea } from './area.ts'

const SECOND = 1000
const DRAIN = 300 * SECOND

async function busy(t: Parameters<typeof lbArea>[0], options: LbOptions = {}) {
  const conns = new Map<string, number>()
  const plane = options.plane ?? fakePlane()
  Object.assign(plane, {
    balancer: { ...plane.balancer, activeConnections: (vip: string, id: string) => conns.get(`${vip}/${id}`) ?? 0 },
  })
  const area = await lbArea(t, { ...options, plane })
  const leave = async (id: string) => {
    const answer = await area.call('DELETE', `${LB}/web/backends/${id}`)
    if (answer.status !== 200) throw new Error(answer.text)
  }
  return { ...area, conns, leave }
}

/** Second by second, since each looks at what the plane says then. */
async function wait({ pass }: LbArea, seconds: number): Promise<void> {
  for (let n = 0; n < seconds; n++) await pass(SECOND)
}

t.test('lb-11 D76 a removed backend drains for 300 s while it has connections', async (t) => {
  const area = await busy(t)
  const { add, join, served, conns, leave, vip, held, events } = area
  await add()
  await join('web', 1)
  await join('web', 2)
  conns.set('web/b1', 3)
  await leave('b1')
  t.same(
    (await vip('web')).backends.map(({ id }) => id),
    ['b2'],
    'from the answer on the API knows nothing of it',
  )
  await wait(area, 299)
  t.same(served('web'), ['b1 draining', 'b2 up'])
  await wait(area, 1)
  t.same(served('web'), ['b2 up'])
  t.same(held(), ['lb/address/eth0/192.0.2.10/32', 'lb/vip/web'])
  t.same(events().slice(-1), ['backend.removed b1'], 'its end is no news')
})

t.test('D76 it is gone before when its connections are, but not while some may still be being opened', async (t) => {
  const area = await busy(t)
  const { add, join, served, conns, leave } = area
  await add()
  await join('web', 1)
  await join('web', 2)
  conns.set('web/b2', 1)
  await leave('b1')
  await leave('b2')
  await wait(area, 9)
  t.same(served('web'), ['b1 draining', 'b2 draining'])
  await wait(area, 1)
  t.same(served('web'), ['b2 draining'])
  await wait(area, 50)
  conns.delete('web/b2')
  await wait(area, 1)
  t.same(served('web'), [])
})

t.test('D76 where nobody counts connections it drains for its time', async (t) => {
  const area = await busy(t)
  const { add, join, served, leave, plane } = area
  Object.assign(plane, { balancer: { ...plane.balancer, accelerated: false } })
  await add()
  await join('web', 1)
  await leave('b1')
  await wait(area, 299)
  t.same(served('web'), ['b1 draining'])
  await wait(area, 1)
  t.same(served('web'), [])
})

t.test('D76 a backend that comes back to its place continues what it had, as what it is now', async (t) => {
  const area = await busy(t)
  const { add, join, served, entry, leave, conns, vip, call, events } = area
  await add()
  await join('web', 1)
  conns.set('web/b1', 3)
  await leave('b1')
  await join('web', 1, { weight: 9 })
  t.same(entry('web')?.backends, [{ id: 'b1', address: '10.0.0.1', port: 80, weight: 9, state: 'up' }])
  t.match((await vip('web')).backends, [{ id: 'b1', weight: 9, active_conns: 3 }])
  await wait(area, 301)
  t.same(served('web'), ['b1 up'], 'it drains no longer')
  await leave('b1')
  await join('web', 2, { ip: '10.0.0.1' })
  t.same(served('web'), ['b1 up'], 'the data plane knows it by its first name')
  t.match((await vip('web')).backends, [{ id: 'b2', active_conns: 3 }])
  await join('web', 1, { ip: '10.0.0.7' })
  t.same(served('web'), ['b1 up', 'b1~2 up'])
  t.match((await vip('web')).backends, [
    { id: 'b1', ip: '10.0.0.7', active_conns: 0 },
    { id: 'b2', ip: '10.0.0.1' },
  ])
  await call('POST', `${LB}/web/backends/b1/health`, { healthy: false })
  t.same(served('web'), ['b1 up', 'b1~2 down'])
  t.equal(events().at(-1), 'backend.state_changed b1 unhealthy')
})

t.test('D76 one of the same id elsewhere is another, and each ends for itself', async (t) => {
  const area = await busy(t)
  const { add, join, served, leave, conns, entry, call, vip } = area
  await add()
  await join('web', 1)
  conns.set('web/b1', 3)
  await leave('b1')
  await join('web', 1, { ip: '10.0.0.8' })
  conns.set('web/b1~2', 1)
  t.same(
    entry('web')?.backends.map(({ id, address, state }) => [id, address, state]),
    [
      ['b1', '10.0.0.1', 'draining'],
      ['b1~2', '10.0.0.8', 'up'],
    ],
  )
  t.match((await vip('web')).backends, [{ id: 'b1', ip: '10.0.0.8', active_conns: 1 }])
  await wait(area, 100)
  await leave('b1')
  t.equal((await call('DELETE', `${LB}/web/backends/b1`)).status, 404)
  t.equal((await call('POST', `${LB}/web/backends/b1/health`, { healthy: true })).status, 404)
  await wait(area, 200)
  t.same(served('web'), ['b1~2 draining'])
  await wait(area, 100)
  t.same(served('web'), [])
  await join('web', 1)
  t.same(served('web'), ['b1 up'], 'and the name is free again')
})

t.test('D20 D76 backends that come and go fast leave a place free for the next one', async (t) => {
  const { add, call, served, leave, plane } = await busy(t)
  Object.assign(plane, { balancer: { ...plane.balancer, activeConnections: () => 1 } })
  await add()
  const join = async (n: number) =>
    (await call('POST', `${LB}/web/backends`, { id: `b${n}`, ip: `10.0.${n >> 8}.${n & 255}` })).status
  const many = () => {
    const lines = served('web')
    return { up: lines.filter((line) => line.endsWith(' up')).length, all: lines.length }
  }
  for (let n = 1; n <= 254; n++) await join(n)
  await leave('b1')
  t.same(many(), { up: 253, all: 254 }, 'it drains')
  t.equal(await join(255), 200)
  t.same(many(), { up: 254, all: 255 })
  t.equal(await join(256), 200)
  t.same(many(), { up: 255, all: 255 }, 'the place of who left is needed')
  await leave('b2')
  await leave('b3')
  t.same(many(), { up: 253, all: 255 })
  for (const n of [257, 258, 259]) t.equal(await join(n), 200)
  t.same(many(), { up: 256, all: 256 })
  t.equal(await join(260), 409)
  await leave('b4')
  t.same(many(), { up: 255, all: 255 }, 'at the limit there is no place to drain')
  t.equal(await join(260), 200)
})

t.test('D7 D76 the other name of a backend is no longer than a name may be', async (t) => {
  const { add, join, leave, entry } = await busy(t)
  await add()
  const id = 'x'.repeat(64)
  await join('web', 1, { id })
  await leave(id)
  await join('web', 2, { id })
  t.same(
    entry('web')?.backends.map((one) => one.id),
    [id, `${'x'.repeat(62)}~2`],
  )
})

t.test('lb-08 with its VIP a backend ends at once', async (t) => {
  const area = await busy(t)
  const { add, join, leave, conns, call, held, served } = area
  await add()
  await join('web', 1)
  conns.set('web/b1', 3)
  await leave('b1')
  await call('DELETE', `${LB}/web`)
  t.same(held(), [])
  await add()
  t.same(served('web'), [], 'and does not come back with one of the same id')
})

t.test('D76 what cannot be taken away is tried again', async (t) => {
  const area = await busy(t)
  const { add, join, leave, plane, served, logged } = area
  await add()
  await join('web', 1)
  await leave('b1')
  await wait(area, 9)
  plane.refuse = new KernelRefusal('made up')
  await wait(area, 1)
  t.same(served('web'), ['b1 draining'])
  t.ok(logged.some(({ msg }) => /this is tried again/.test(String(msg))))
  await wait(area, 1)
  t.same(served('web'), [])
})

t.test('lb-26 D76 VIPs, backends, health and what drains outlive the agent', async (t) => {
  const [stateDir, plane] = [scratch(t), fakePlane()]
  const asked: string[] = []
  const health = new Map([['10.0.0.1', true]])
  const options: LbOptions = {
    stateDir,
    plane,
    probe: async ({ address }) => {
      asked.push(address)
      return health.get(address) ? undefined : 'sick'
    },
  }
  const first = await busy(t, options)
  await first.add({ health_check: { type: 'tcp', threshold: 2 } })
  for (const n of [1, 2, 3]) await first.join('web', n)
  await first.add({ id: 'plain', frontend_port: 81 })
  await first.join('plain', 1, { weight: 0 })
  first.conns.set('web/b3', 2)
  await first.pass(SECOND)
  await first.call('POST', `${LB}/plain/backends/b1/health`, { healthy: false })
  await first.leave('b3')
  const state = { web: ['b1 up', 'b2 down', 'b3 draining'], plain: ['b1 down'] }
  t.same({ web: first.served('web'), plain: first.served('plain') }, state)
  const list = (await first.call('GET', LB)).text
  await first.agent.close()
  // As after a boot of the machine.
  plane.entries.clear()
  asked.length = 0
  const second = await busy(t, { ...options, timers: first.timers })
  second.conns.set('web/b3', 2)
  t.same({ web: second.served('web'), plain: second.served('plain') }, state, 'before anybody was looked at')
  t.equal((await second.call('GET', LB)).text, list)
  health.set('10.0.0.1', false)
  health.set('10.0.0.2', true)
  await second.pass(5 * SECOND)
  t.same(asked.sort(), ['10.0.0.1', '10.0.0.2'], 'the checks go on')
  t.same(second.served('web'), ['b1 up', 'b2 up', 'b3 draining'], 'b2 still had its first success to come')
  await second.pass(5 * SECOND)
  t.same(second.served('web'), ['b1 down', 'b2 up', 'b3 draining'], 'and count from the start')
  await second.pass(DRAIN - 12 * SECOND)
  t.same(second.served('web').at(-1), 'b3 draining')
  await wait(second, 3)
  t.same(second.served('web').length, 2, 'the time ran on')
})
