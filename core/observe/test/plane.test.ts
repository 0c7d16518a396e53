/** The watched plane is the plane, and counts; the event loop's delay is what a timer sees. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Connection } from '../../../dataplane/connections.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { buildArea } from '../../../test/build.ts'
import { readExposition } from '../../../test/exposition.ts'
import { watchEventLoop } from '../loop.ts'

const connection: Connection = {
  family: 4,
  protocol: 6,
  src: '192.0.2.1',
  dst: '192.0.2.2',
  sport: 40_000,
  dport: 22,
  reply: { src: '192.0.2.2', dst: '192.0.2.1', sport: 22, dport: 40_000 },
  established: true,
}

t.test('connections that were ended are counted, as many as there still were', async (t) => {
  const plane = fakePlane()
  const connections = { ...plane.connections, end: async (chosen: readonly Connection[]) => chosen.length - 1 }
  const { agent } = await buildArea(t, 'firewall', { plane: Object.assign(plane, { connections }) })
  t.equal(await agent.plane.connections.end([connection, connection, connection]), 2)
  const metrics = readExposition(await agent.metrics.text())
  t.equal(metrics.value('stratum_plane_connections_ended_total'), 2)
})

t.test('facilities are shown by name, and how often their helper was started anew', async (t) => {
  const plane = fakePlane()
  const { agent } = await buildArea(t, 'firewall', { plane })
  plane.check = () => [
    { name: 'nft', available: true, detail: '', restarts: 2 },
    { name: 'bpf', available: false, detail: 'no BTF' },
  ]
  const metrics = readExposition(await agent.metrics.text())
  t.equal(metrics.value('stratum_plane_facility_up', { facility: 'nft' }), 1)
  t.equal(metrics.value('stratum_plane_facility_up', { facility: 'bpf' }), 0)
  t.equal(metrics.value('stratum_plane_helper_restarts_total', { facility: 'nft' }), 2)
  t.equal(metrics.series('stratum_plane_helper_restarts_total').length, 1)
})

t.test('an event loop that is held up shows its delay, once', async (t) => {
  const loop = watchEventLoop()
  t.teardown(() => loop.close())
  loop.delay()
  // After a question the watch begins anew with its next look at the clock.
  await delay(250)
  const until = performance.now() + 400
  while (performance.now() < until);
  await delay(50)
  const late = loop.delay()
  t.ok(late > 0.2 && late < 20, `${late} s`)
  t.equal(loop.delay(), 0, 'what was told is not told again')
})
