/** A flood of four times what the table of connections holds, and shorter ones; with LB_FLOOD=1 all are as long. */
import '../../../../test/inside.ts'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { LB_BEGUN4, LB_FLOWS4, LB_OPENINGS } from '../../../numbers.ts'
import { backend, CLIENT, lab, outsideAddress, tallied, VIP, vip } from './lab.ts'
import { ACK, SYN, type Walker, walker } from './walker.ts'

requireRoot(t)

const FLOOD = 4 * LB_FLOWS4
const SHORT = process.env.LB_FLOOD === '1' ? FLOOD : FLOOD / 16
const IDLE = '203.0.113.77'
const IDLE_CLIENTS = 8192
/** More than there are packets, so that each is from another client. */
const CLIENTS = 1 << 24

const it = await lab(t, 2)
for (const [n, machine] of it.backends.entries()) {
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name: `b${n + 1}` })
  await machine.tell('listen', { protocol: 'udp', port: 8080, name: `b${n + 1}`, address: '0.0.0.0' })
}
const at = { address: VIP, port: 80 }
const two = [backend(1), backend(2)]
const held = vip({ id: 'idle', key: 'lb/vip/idle', address: IDLE, dsr: true, backends: [backend(1, { port: 80 })] })
const idle = () => it.balancer.balancer.activeConnections('idle', 'b1')
const active = () => [1, 2].map((n) => it.balancer.balancer.activeConnections('web', `b${n}`))

/** Connections that say nothing. */
async function holdIdle(walking: Walker): Promise<void> {
  await it.put(held)
  for (let turn = 0; turn < IDLE_CLIENTS; turn += 4096) {
    for (const flags of [SYN, ACK]) {
      await walking.send({ to: IDLE, flags, clients: IDLE_CLIENTS, turn, count: 4096 })
    }
  }
}

for (const [algorithm, packets] of [
  ['round-robin', FLOOD],
  ['maglev', SHORT],
  ['least-conn', SHORT],
] as const) {
  t.test(`a flood of openings: connections stay, idle ones too, and new ones are served by ${algorithm}`, async (t) => {
    const entry = vip({ backends: two, algorithm })
    await it.put(entry)
    const walking = await walker(it.root, 'up0', LB_OPENINGS)
    await holdIdle(walking)
    t.equal(idle(), IDLE_CLIENTS)
    const opened = []
    for (let n = 0; n < 20; n++) opened.push(await it.client.tell('open', at))
    const before = active()
    let over = false
    const share = 1 << 15
    const flood = (async () => {
      for (let sent = 0; sent < packets; sent += share) {
        await walking.send({ to: VIP, flags: SYN, clients: CLIENTS, turn: sent, count: share })
      }
      over = true
    })()
    const answers: string[] = []
    while (!over || answers.length < 100) answers.push(...(await it.client.tell('ask', { ...at, count: 5 })))
    await flood
    const served = answers.filter((answer) => answer.endsWith(` ${CLIENT}`)).length
    t.ok(
      served >= answers.length * 0.95,
      `${served} of ${answers.length} were served: ${JSON.stringify(tallied(answers))}`,
    )
    for (const { handle } of opened) t.equal(await it.client.tell('say', { handle, text: 'after it' }), 'same')
    t.equal(idle(), IDLE_CLIENTS)
    await it.balancer.sweep()
    await it.balancer.sweep()
    t.equal(idle(), IDLE_CLIENTS, 'all of the idle ones are there')
    t.same(active(), before, 'openings are not connections')
    for (const { handle } of opened) await it.client.tell('close', { handle, how: 'fin' })
    walking.close()
    await it.apply({ before: entry }, { before: held })
  })
}

t.test('floods of datagrams and of segments of no connection leave connections alone', async (t) => {
  const entry = vip({ backends: two })
  const datagrams = vip({ id: 'dns', key: 'lb/vip/dns', protocol: 'udp', backends: two })
  await it.apply({ after: entry }, { after: datagrams })
  const walking = await walker(it.root, 'up0', LB_OPENINGS)
  await holdIdle(walking)
  const { handle } = await it.client.tell('open', at)
  const flow = { ...at, localPort: 40_300 }
  const [name = ''] = await it.client.tell('flow', { ...flow, count: 2 })
  for (const wave of [{ protocol: 'udp' }, { flags: ACK }] as const) {
    await walking.send({ to: VIP, ...wave, clients: CLIENTS, count: SHORT * 2 })
  }
  t.equal(await it.client.tell('say', { handle, text: 'after it' }), 'same')
  t.same(await it.client.tell('flow', flow), [name])
  t.match(await it.client.tell('ask', { ...at, protocol: 'udp' }), [/^b/], 'who asks anew is answered')
  t.same(
    [1, 2].reduce((sum, n) => sum + it.balancer.balancer.activeConnections('dns', `b${n}`), 0),
    1,
  )
  t.equal(idle(), IDLE_CLIENTS)
  const known = await it.balancer.connections.list()
  t.ok(known.length <= LB_BEGUN4 + IDLE_CLIENTS + 2, `${known.length} are known`)
  walking.close()
  await it.apply({ before: entry }, { before: datagrams }, { before: held })
})

t.test('openings that need a port of the node, more than it has', async (t) => {
  const outside = it.outside(1)
  await outside.tell('listen', { protocol: 'tcp', port: 8080, name: 'o1' })
  const entry = vip({ backends: [backend(1, { address: outsideAddress(1) })] })
  await it.put(entry)
  const opened = await it.client.tell('open', at)
  t.match(opened.line, /^o1 /)
  const walking = await walker(it.root, 'up0')
  await walking.send({ to: VIP, flags: SYN, clients: CLIENTS, count: 1 << 17 })
  t.equal(await it.client.tell('say', { handle: opened.handle, text: 'after it' }), 'same')
  const answers = await it.client.tell('ask', { ...at, count: 20 })
  t.equal(tallied(answers).o1, 20, answers.join())
  t.equal(active()[0], 1)
  walking.close()
  await it.apply({ before: entry })
})

t.same(it.problems, [])
