/** Who serves whom: each algorithm with real connections. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { LB } from './area.ts'
import { backendIp6, counts, type Held, lab, tallied, VIP6 } from './lab.ts'
import { balanced, lane } from './lane.ts'

requireRoot(t)

const it = await lab(t, 4)
const { serve, join, leave, drop, ask, open, agent, say, active } = it

balanced('lb-15 lb-25 round-robin gives each backend as many, whatever its port', async (t) => {
  await serve(3)
  t.same(tallied(await ask(12)), { b1: 4, b2: 4, b3: 4 })
  await drop('web')
  await serve(2, { frontend_ip: VIP6 }, (n) => ({ ip: backendIp6(n) }))
  t.same(tallied(await ask(4, { address: VIP6 })), { b1: 2, b2: 2 }, 'IPv6')
  await drop('web')
  await serve(2, { protocol: 'udp' })
  t.same(tallied(await ask(4, { protocol: 'udp' })), { b1: 2, b2: 2 }, 'UDP')
  await drop('web')
})

balanced('lb-16 weighted gives by weight, and nothing to who weighs nothing', async (t) => {
  await serve(3, { algorithm: 'weighted' }, (n) => ({ weight: [8, 2, 0][n - 1] }))
  const { b1 = 0, b2 = 0, ...rest } = tallied(await ask(200))
  t.same(rest, {})
  // 200 throws of 4 to 1: 160 ± 5 standard deviations of 5.7.
  t.ok(b1 >= 132 && b1 <= 188 && b1 + b2 === 200, `${b1} of 200`)
  await drop('web')
})

balanced('lb-18 source-hash keeps a client at its backend', async (t) => {
  await serve(4, { algorithm: 'source-hash' })
  t.equal(Object.keys(tallied(await ask(12))).length, 1)
  await drop('web')
})

/** Which backend each of these ports of the client has; ended by reset, so that they can be used at once again. */
async function places(ports: readonly number[]): Promise<Map<number, string>> {
  const found = new Map<number, string>()
  for (const localPort of ports) {
    const held = await open({ localPort })
    found.set(localPort, held.with)
    await held.close('reset')
  }
  return found
}

for (const algorithm of ['maglev', 'consistent-hash']) {
  balanced(`lb-19 ${algorithm}: when a backend leaves, of the others’ clients next to none move`, async (t) => {
    await serve(4, { algorithm })
    const ports = Array.from({ length: 80 }, (_, n) => 20_000 + n * 7)
    const before = await places(ports)
    t.equal(new Set(before.values()).size, 4)
    await leave('web', 2)
    const after = await places(ports)
    const others = ports.filter((port) => before.get(port) !== 'b2')
    const moved = others.filter((port) => before.get(port) !== after.get(port))
    t.ok(moved.length <= others.length * 0.1, `${moved.length} of ${others.length} moved`)
    t.notOk([...after.values()].includes('b2'))
    await drop('web')
  })
}

if (lane === 'programs') {
  balanced('lb-17 least-conn prefers the backend with the fewest connections that stand', async (t) => {
    await serve(3, { algorithm: 'least-conn' })
    const held: Held[] = []
    for (let n = 0; n < 6; n++) {
      held.push(await open())
      await counts(
        it,
        'web',
        [1, 2, 3].map((b) => held.filter((one) => one.with === `b${b}`).length),
      )
    }
    t.same(await active('web'), [2, 2, 2], 'none has two more than another')
    const ended = held.filter((one) => one.with === 'b2')
    for (const one of ended) await one.close()
    await counts(it, 'web', [2, 0, 2])
    const next = [await open()]
    await counts(it, 'web', [2, 1, 2])
    next.push(await open())
    t.same(
      next.map((one) => one.with),
      ['b2', 'b2'],
      'who had ended its connections gets the next ones',
    )
    for (const one of [...held.filter((one) => !ended.includes(one)), ...next]) await one.close('reset')
    await counts(it, 'web', [0, 0, 0])
    await drop('web')
  })
} else {
  balanced('lb-17 least-conn is refused with the reason', async (t) => {
    const body = { id: 'web', frontend_ip: VIP6, frontend_port: 80, algorithm: 'least-conn' }
    const answer = await agent.call('POST', LB, body)
    const error =
      'algorithm: least-conn needs the eBPF load balancer; here it is nft (switched off (STRATUM_BALANCER=off))'
    t.match(answer, { status: 409, body: { error } })
  })
}

balanced(
  'D75 without a healthy backend TCP is reset and UDP goes nowhere; the first that is well is served',
  async (t) => {
    await serve(1)
    await serve(1, { id: 'dns', protocol: 'udp' })
    for (const id of ['web', 'dns']) await say(id, 1, false)
    t.same(await ask(2), ['ECONNREFUSED', 'ECONNREFUSED'])
    t.same(await ask(1, { protocol: 'udp', timeoutMs: 300 }), ['timeout'])
    await join('web', 2)
    for (const id of ['dns']) await say(id, 1, true)
    t.same([await ask(1), await ask(1, { protocol: 'udp' })], [['b2'], ['b1']])
    await drop('web')
    await drop('dns')
  },
)
