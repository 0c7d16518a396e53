/** Where nft balances: which connections conntrack is made to forget, and when. */
import t, { type Test } from 'tap'
import type { Connection } from '../../../dataplane/connections.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { scratch } from '../../../test/build.ts'
import { claimedBy, outdated } from '../evict.ts'
import { tally } from '../flows.ts'
import { queries } from '../queries.ts'
import { LB, type LbOptions, lbArea } from './area.ts'

const VIP = '192.0.2.10'
const [TCP, UDP] = [6, 17]

/** From a client to the VIP, which backend `n` answers. */
function connection(n: number, more: Partial<Connection> & { backendPort?: number } = {}): Connection {
  const { backendPort, ...fields } = more
  const dport = fields.dport ?? 80
  const reply = { src: `10.0.0.${n}`, sport: backendPort ?? dport, dst: '198.51.100.2', dport: 40_000 + n }
  const both = { family: 4 as const, src: '198.51.100.2', sport: 40_000 + n, dst: VIP, dport }
  return { ...both, protocol: TCP, reply, established: true, ...fields }
}

/** An agent over a plane whose conntrack holds `all`. */
async function tracking(t: Test, all: Connection[], options: LbOptions = {}) {
  const plane = options.plane ?? fakePlane({ balancer: false })
  const state = { fails: false, looks: 0 }
  Object.assign(plane, {
    connections: {
      ...plane.connections,
      list: async () => {
        state.looks++
        if (state.fails) throw new Error('no conntrack')
        return [...all]
      },
      end: async (those: readonly Connection[]) => {
        for (const one of those) all.splice(all.indexOf(one), 1)
        return those.length
      },
    },
  })
  const area = await lbArea(t, { ...options, plane })
  const pending = () => queries(area.agent.store.read).pending.all({ limit: 10 }).length
  const settled = async () => {
    while (pending() > 0) await new Promise((done) => setTimeout(done, 5))
  }
  return { ...area, state, pending, settled, left: () => all.map(({ reply, dport }) => `${reply.src} ${dport}`) }
}

t.test('lb-08 a VIP that goes takes its connections along, and no others', async (t) => {
  const foreign = connection(1, { dst: '192.0.2.99' })
  const all = [connection(1), connection(2), connection(1, { dport: 81 }), connection(1, { protocol: UDP }), foreign]
  const { add, join, call, settled, left, vip } = await tracking(t, all)
  await add()
  await add({ id: 'other', frontend_port: 81 })
  await join('web', 1)
  await join('web', 2)
  await join('other', 1)
  t.same(
    (await vip('web')).backends.map(({ active_conns }) => active_conns),
    [1, 1],
    'lb-06',
  )
  await call('DELETE', `${LB}/web`)
  await settled()
  t.same(left(), ['10.0.0.1 81', '10.0.0.1 80', '10.0.0.1 80'])
})

t.test('a VIP for every port leaves alone what one for a port serves', async (t) => {
  const { add, join, call, settled, left, vip } = await tracking(t, [connection(1), connection(1, { dport: 443 })])
  await add()
  await join('web', 1)
  await add({ id: 'every', frontend_port: 0 })
  await join('every', 1)
  t.match((await vip('every')).backends, [{ active_conns: 1 }])
  await call('DELETE', `${LB}/every`)
  await settled()
  t.same(left(), ['10.0.0.1 80'])
})

t.test('state-08 datagrams leave a backend that is unhealthy, connections stay', async (t) => {
  const { add, join, call, settled, left } = await tracking(t, [connection(1), connection(1, { protocol: UDP })])
  await add()
  await add({ id: 'dns', protocol: 'udp' })
  for (const id of ['web', 'dns']) {
    await join(id, 1)
    await call('POST', `${LB}/${id}/backends/b1/health`, { healthy: false })
  }
  await settled()
  t.same(left(), ['10.0.0.1 80'])
  await call('DELETE', `${LB}/web/backends/b1`)
  await settled()
  t.same(left(), ['10.0.0.1 80'], 'it drains')
})

t.test('what could not be ended is ended later, unless it is served again by then', async (t) => {
  const [stateDir, plane] = [scratch(t), fakePlane({ balancer: false })]
  const all = [connection(1), connection(2)]
  const first = await tracking(t, all, { stateDir, plane })
  await first.add()
  await first.join('web', 1)
  await first.join('web', 2)
  first.state.fails = true
  await first.call('DELETE', `${LB}/web`)
  await first.agent.close()
  const again = await tracking(t, all, { stateDir, plane })
  await again.settled()
  t.same(again.left(), [], 'by the next agent')
  all.push(connection(1), connection(2))
  await again.add()
  await again.join('web', 1)
  await again.join('web', 2)
  again.state.fails = true
  const { looks } = again.state
  await again.call('DELETE', `${LB}/web`)
  while (again.state.looks === looks) await new Promise(setImmediate)
  await again.add()
  await again.join('web', 1)
  again.state.fails = false
  await again.call('POST', `${LB}/web/backends/b1/health`, { healthy: true })
  await again.settled()
  t.same(again.left(), ['10.0.0.1 80'])
})

t.test('the event loop has its turns while a crowd of connections is looked through', async (t) => {
  const { add, join, agent } = await tracking(t, [])
  await add()
  await join('web', 1)
  const { read } = agent.store
  const all = Array.from({ length: 100_000 }, () => connection(1, { dst: '192.0.2.99' }))
  const rows = Array.from({ length: 250 }, (_, n) => {
    return {
      id: n,
      address: '192.0.2.99',
      port: 80,
      protocol: 'tcp' as const,
      backendIp: `10.0.1.${n}`,
      backendPort: 80,
    }
  })
  for (const work of [() => outdated(read, rows, [...all, connection(9)]), () => tally(all, claimedBy(read))]) {
    let turns = 0
    const ticking = setInterval(() => turns++)
    await work()
    clearInterval(ticking)
    t.ok(turns > 0)
  }
  const row = { id: 1, address: VIP, port: 80, protocol: 'tcp' as const, backendIp: '10.0.0.9', backendPort: 80 }
  t.equal((await outdated(read, [...rows, row], [connection(9), connection(1)])).length, 1)
})

t.test('where the programs balance, nothing is noted and conntrack is not asked', async (t) => {
  const { add, join, call, pending, state } = await tracking(t, [connection(1)], { plane: fakePlane() })
  await add()
  await join('web', 1)
  await call('DELETE', `${LB}/web`)
  t.same([pending(), state.looks], [0, 0])
})
