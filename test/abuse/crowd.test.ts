/**
 * Crowds that take connections and give nothing: half-open handshakes, silence, headers and bodies byte by byte, on all
 * three ports, while somebody else asks for the health of the node. CROWD sets how many of each (200 in the long run).
 */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startAgent } from '../agent.ts'
import { netns, requireRoot } from '../netns.ts'
import { type Crowd, type Manner, startCrowd } from './crowd.ts'
import { startInnocent } from './innocent.ts'
import { rssOf } from './process.ts'

const CROWD = Number(process.env.CROWD ?? 40)
const IS_LONG = CROWD >= 200
/** Two hundred kB for each of up to 3000 connections, and what V8 has not collected. */
const MAX_GROWTH_MIB = 600
const [REST, GRPC, EVENTS] = [7070, 7071, 7072]

/** Who must be gone how long after it came, in ms: the patience of the listener and how often it looks. */
const PATIENCE: { manner: Manner; port: number; ms: number }[] = [
  ...[REST, GRPC, EVENTS].flatMap((port) => [
    { manner: 'silent' as const, port, ms: 10_000 },
    { manner: 'hello' as const, port, ms: 10_000 },
  ]),
  ...[REST, EVENTS].flatMap((port) => [
    { manner: 'idle' as const, port, ms: 12_000 },
    { manner: 'headers' as const, port, ms: 12_000 },
  ]),
  // Health checks keep their connection, so it takes a ping without an answer to tell that nobody is there.
  { manner: 'idle', port: GRPC, ms: 50_000 },
  { manner: 'headers', port: GRPC, ms: 50_000 },
  { manner: 'body', port: REST, ms: 32_000 },
]
/** A loaded machine is late. */
const LATE_MS = 6000

/** Fails for everyone who is still there when their time is over. */
async function allGone(t: Pick<Test, 'equal'>, crowd: Crowd, came: number, most: number): Promise<void> {
  for (const { manner, port, ms } of PATIENCE.filter(({ ms }) => ms <= most).sort((a, b) => a.ms - b.ms)) {
    let { open } = await crowd.look(manner, port)
    while (open > 0 && performance.now() - came < ms + LATE_MS) {
      await wait(100)
      open = (await crowd.look(manner, port)).open
    }
    t.equal(open, 0, `${manner} on ${port}`)
  }
}

t.test('whoever keeps the agent waiting is shed, and the others are served', { timeout: 120_000 }, async (t) => {
  if (!requireRoot(t)) return
  const ns = netns(t, 'cr')
  const agent = await startAgent(t, { ns, config: { api_rate_limit: '10000000', api_rate_burst: '1000000' } })
  const innocent = startInnocent(ns.spawn)
  await innocent.start({ url: `https://127.0.0.1:${REST}/api/v1/health`, from: '127.0.0.1', pauseMs: 20 })
  const before = rssOf(agent.child.pid)

  const crowd = startCrowd(ns.spawn)
  let most = 0
  for (const [n, { manner, port }] of PATIENCE.entries()) {
    const from = `127.0.1.${n + 1}`
    const { open, ended } = await crowd.come({ manner, port, from, count: CROWD, token: agent.token })
    t.same([open, ended], [CROWD, 0], `${manner} on ${port} came in`)
    most = Math.max(most, rssOf(agent.child.pid))
  }
  const came = performance.now()
  const busy = IS_LONG ? CROWD : 10
  await crowd.come({ manner: 'requests', port: REST, from: '127.0.2.1', count: busy, token: agent.token })
  most = Math.max(most, rssOf(agent.child.pid))

  await allGone(t, crowd, came, IS_LONG ? 60_000 : 12_000)
  most = Math.max(most, rssOf(agent.child.pid))
  const asking = await crowd.look('requests', REST)
  t.match(asking, { open: busy, ended: 0, refused: 0 }, 'who asks is not shed')
  t.ok(asking.answered > 10 * busy, `${asking.answered} answers`)
  const { requests, failures, p99 } = await innocent.report()
  t.same(failures, [], `all of ${requests} requests of the innocent were answered`)
  t.ok(requests > 50)
  t.comment(`p99 ${p99.toFixed(0)} ms, ${(most - before).toFixed(0)} MiB more at most`)
  t.ok(most - before < MAX_GROWTH_MIB, `${(most - before).toFixed(0)} MiB more at most`)
})

t.test(
  'one address has 256 connections on each port, a /64 as many, and the control socket knows no bound',
  async (t) => {
    if (!requireRoot(t)) return
    const ns = netns(t, 'fl')
    ns.run('ip', '-6', 'route', 'add', 'local', '2001:db8::/32', 'dev', 'lo')
    ns.run('sysctl', '-qw', 'net.ipv6.ip_nonlocal_bind=1')
    const agent = await startAgent(t, { ns })
    const { token } = agent
    const crowd = startCrowd(ns.spawn)
    /** Opens `count` more, and says how many stand on the port and have been ended, once that is as many as expected. */
    async function come(port: number, from: string, count: number, expected: { open: number; ended: number }) {
      await crowd.come({ manner: 'silent', port, from, count, token })
      const start = performance.now()
      for (;;) {
        const { open, ended } = await crowd.look('silent', port)
        const isRight = open === expected.open && ended === expected.ended
        if (isRight || performance.now() - start > 5000) return t.same({ open, ended }, expected, `${from} on ${port}`)
        await wait(50)
      }
    }
    for (const port of [REST, GRPC, EVENTS]) {
      await come(port, '127.0.3.1', 270, { open: 256, ended: 14 })
      await come(port, '127.0.3.2', 10, { open: 266, ended: 14 })
      await crowd.leave()
    }
    await agent.call('PUT', '/control/v1/config/max_connections_per_ip', { value: '20' })
    await come(REST, '2001:db8:0:1::1', 15, { open: 15, ended: 0 })
    await come(REST, '2001:db8:0:1::2', 15, { open: 20, ended: 10 })
    await come(REST, '2001:db8:0:2::1', 15, { open: 35, ended: 10 })
    // The kernel takes connections in before the agent does; once a later one is answered, the agent has all of them.
    await crowd.come({ manner: 'requests', port: REST, from: '127.0.3.4', count: 1, token })
    while ((await crowd.look('requests', REST)).answered === 0) await wait(20)
    await agent.call('PUT', '/control/v1/config/max_connections', { value: '16' })
    await come(REST, '127.0.3.3', 1, { open: 35, ended: 11 })
    t.equal((await agent.call('GET', '/api/v1/health')).status, 200)
  },
)
