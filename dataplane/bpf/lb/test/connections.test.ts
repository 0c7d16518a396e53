import '../../../../test/inside.ts'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { LB_IDLE_OPEN, LB_UNIT_BITS } from '../../../numbers.ts'
import { bytes } from '../../codec.ts'
import { openMap } from '../../map.ts'
import type { VipEntry } from '../entries.ts'
import { pinsOf } from '../open.ts'
import { ticks } from '../sockets.ts'
import { backend, lab, tallied, VIP, vip } from './lab.ts'

requireRoot(t)

const it = await lab(t, 3)
for (const [n, machine] of it.backends.entries()) {
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name: `b${n + 1}` })
  await machine.tell('listen', { protocol: 'udp', port: 8080, name: `b${n + 1}`, address: '0.0.0.0' })
}
const three = [backend(1), backend(2), backend(3)]
const { client } = it
const at = { address: VIP, port: 80 }
const active = (id = 'web') => three.map(({ id: backend }) => it.balancer.balancer.activeConnections(id, backend))
/** Opens so many connections that stay; their numbers and the names of their backends. */
const open = async (count: number) => {
  const opened: { handle: number; name: string }[] = []
  for (let n = 0; n < count; n++) {
    const { handle, line } = await client.tell('open', at)
    opened.push({ handle, name: line.split(' ')[0] ?? '' })
  }
  return opened
}
const close = (handles: readonly { handle: number }[], how: 'fin' | 'reset') =>
  Promise.all(handles.map(({ handle }) => client.tell('close', { handle, how })))
/** Resolves when the counts are these; the last packets of a connection are on their way when a socket has closed. */
async function comesTo(counts: readonly number[]): Promise<readonly number[]> {
  for (let n = 0; n < 200 && active().join() !== counts.join(); n++) await new Promise((done) => setTimeout(done, 10))
  return active()
}

t.test('active connections: ended by FIN, by RST, and by nothing at all (lb-06)', async (t) => {
  const entry = vip({ backends: three })
  await it.put(entry)
  const first = await open(6)
  t.same(active(), [2, 2, 2])
  await close(first.slice(0, 3), 'fin')
  t.same(await comesTo([1, 1, 1]), [1, 1, 1], 'FIN of both sides')
  await close(first.slice(3), 'reset')
  t.same(await comesTo([0, 0, 0]), [0, 0, 0], 'RST')
  await it.balancer.sweep()
  await it.balancer.sweep()
  t.same(active(), [0, 0, 0], 'the recount agrees')
  const later = await open(3)
  t.same(active(), [1, 1, 1])
  await it.balancer.sweep()
  await it.balancer.sweep()
  t.same(active(), [1, 1, 1], 'the recount of open ones agrees')
  await close(later, 'reset')
  await it.apply({ before: entry })
})

t.test(
  'connections of clients that vanished are forgotten when they are idle, those that the kernel gave up at the recount',
  async (t) => {
    const entry = vip({ backends: three })
    await it.put(entry)
    const held = await open(6)
    t.same(active(), [2, 2, 2])
    const { pinDir } = pinsOf(it.root)
    const flows = openMap(join(pinDir, 'lb_flows4'), bytes(16), bytes(40))
    // Of struct lb_flow4 the state: open, and not closed.
    const isOpen = (flow: Uint8Array) => ((Buffer.from(flow).readUInt32LE(12) ?? 0) & 0x18) === 8
    const standing = (await flows.lookupBatch()).filter(([, flow]) => isOpen(flow))
    t.equal(standing.length, 6)
    const idle = ticks().readUInt32LE() * LB_IDLE_OPEN
    for (const [key, flow] of standing.slice(0, 3)) {
      const aged = Buffer.from(flow)
      aged.writeUInt32LE((aged.readUInt32LE(8) - (idle >>> LB_UNIT_BITS) - 2) >>> 0, 8)
      flows.set(key, aged)
    }
    const sum = () => active().reduce((total, one) => total + one, 0)
    await it.balancer.sweep()
    t.equal(sum(), 3)
    t.equal((await flows.lookupBatch()).filter(([, flow]) => isOpen(flow)).length, 3)
    for (const [key] of standing.slice(3, 5)) flows.delete(key)
    t.equal(sum(), 3, 'nobody has noticed')
    await it.balancer.sweep()
    await it.balancer.sweep()
    t.equal(sum(), 1)
    flows.close()
    await close(held, 'reset')
    await it.apply({ before: entry })
  },
)

t.test('a backend that comes or goes leaves connections where they are (lb-24)', async (t) => {
  const two = vip({ backends: three.slice(0, 2) })
  await it.put(two)
  const held = await open(4)
  const all = vip({ backends: three })
  await it.put(all, two)
  for (const { handle } of held) t.equal(await client.tell('say', { handle, text: 'still here' }), 'same')
  t.same(tallied(await client.tell('ask', { ...at, count: 9 })), { b1: 3, b2: 3, b3: 3 })
  // What a client still sends to one that went takes a turn: it is sent to another, which resets the connection.
  const [gone, kept] = [held.filter(({ name }) => name === 'b1'), held.filter(({ name }) => name !== 'b1')]
  await close(gone, 'reset')
  t.same(await comesTo([0, 2, 0]), [0, 2, 0])
  const rest = vip({ backends: three.slice(1) })
  await it.put(rest, all)
  for (const { handle } of kept) t.equal(await client.tell('say', { handle, text: 'still here' }), 'same')
  t.same(tallied(await client.tell('ask', { ...at, count: 4 })), { b2: 2, b3: 2 })
  await close(kept, 'reset')
  await it.apply({ before: rest })
})

for (const state of ['draining', 'down'] as const) {
  t.test(`a backend that is ${state} serves what it has and gets nothing new (lb-13)`, async (t) => {
    const before = vip({ backends: three })
    await it.put(before)
    const held = await open(3)
    const entry = vip({ backends: [backend(1, { state }), backend(2), backend(3)] })
    await it.put(entry, before)
    for (const { handle } of held) t.equal(await client.tell('say', { handle, text: 'served' }), 'same')
    t.same(tallied(await client.tell('ask', { ...at, count: 8 })), { b2: 4, b3: 4 })
    t.same(await it.balancer.driver.observe(), [entry])
    await it.put(before, entry)
    t.same(tallied(await client.tell('ask', { ...at, count: 9 })), { b1: 3, b2: 3, b3: 3 }, 'back again')
    await close(held, 'fin')
    await it.apply({ before })
  })
}

t.test('a tuple that is used anew does not go to a backend that drains', async (t) => {
  const before = vip({ algorithm: 'source-hash', backends: three })
  await it.put(before)
  const asked = { ...at, localPort: 40_001 }
  const [first = ''] = await client.tell('ask', asked)
  const name = first.split(' ')[0] ?? ''
  const entry = {
    ...before,
    backends: three.map((it) => (it.id === name ? { ...it, state: 'draining' as const } : it)),
  }
  await it.put(entry, before)
  // The client's socket may still be in TIME_WAIT: then it cannot ask from there yet.
  client.ns.run('sysctl', '-qw', 'net.ipv4.tcp_tw_reuse=1')
  const [again = ''] = await client.tell('ask', asked)
  t.not(again.split(' ')[0], name, again)
  await it.apply({ before: entry })
})

t.test('a UDP flow leaves a backend that is down, and stays at one that drains', async (t) => {
  const before = vip({ protocol: 'udp', backends: three })
  await it.put(before)
  const flow = { ...at, localPort: 40_100 }
  const name = (await client.tell('flow', flow))[0]?.split(' ')[0] ?? ''
  const become = (state: 'draining' | 'down'): VipEntry => ({
    ...before,
    backends: three.map((it) => (it.id === name ? { ...it, state } : it)),
  })
  await it.put(become('draining'), before)
  t.equal((await client.tell('flow', flow))[0]?.split(' ')[0], name)
  await it.put(become('down'), become('draining'))
  t.not((await client.tell('flow', flow))[0]?.split(' ')[0], name)
  await client.tell('flow', flow)
  t.equal(
    active().reduce((sum, one) => sum + one, 0),
    1,
  )
  await it.apply({ before: become('down') })
})

t.test('without any backend TCP is reset and UDP is dropped', async (t) => {
  const none = three.map((it) => ({ ...it, state: 'down' as const }))
  for (const backends of [[], none]) {
    const entry = vip({ backends })
    await it.put(entry)
    t.same(await client.tell('ask', at), ['ECONNREFUSED'])
    await it.apply({ before: entry })
    const datagrams = vip({ protocol: 'udp', backends })
    await it.put(datagrams)
    t.same(await client.tell('ask', { ...at, protocol: 'udp', timeoutMs: 200 }), ['timeout'])
    await it.apply({ before: datagrams })
  }
})

t.test(
  'least-conn prefers who has fewest, weights are kept to, source-hash knows a client (lb-16 to lb-18)',
  async (t) => {
    const least = vip({ algorithm: 'least-conn', backends: three })
    await it.put(least)
    const held = await open(6)
    t.same(active(), [2, 2, 2])
    const ofOne = held.filter(({ name }) => name === 'b2')
    await close(ofOne, 'reset')
    await comesTo([2, 0, 2])
    const more = await open(2)
    t.same(
      more.map(({ name }) => name),
      ['b2', 'b2'],
    )
    await close([...held, ...more], 'reset')
    await it.apply({ before: least })

    const weighted = vip({
      algorithm: 'weighted',
      backends: [backend(1, { weight: 3 }), backend(2), backend(3, { weight: 0 })],
    })
    await it.put(weighted)
    const counts = tallied(await client.tell('ask', { ...at, count: 200 }))
    t.equal(counts.b3, undefined)
    t.ok((counts.b1 ?? 0) > 120 && (counts.b1 ?? 0) < 180, JSON.stringify(counts))
    await it.apply({ before: weighted })

    const sticky = vip({ algorithm: 'source-hash', backends: three })
    await it.put(sticky)
    t.equal(Object.keys(tallied(await client.tell('ask', { ...at, count: 12 }))).length, 1)
    await it.apply({ before: sticky })
  },
)

t.test('connections and counts outlive the agent, and the next one goes on with them (lb-26)', async (t) => {
  const entry = vip({ backends: three, algorithm: 'maglev' })
  await it.put(entry)
  const held = await open(5)
  const counts = active()
  await it.balancer.driver.close()
  for (const { handle } of held) t.equal(await client.tell('say', { handle, text: 'no agent' }), 'same')
  t.equal((await client.tell('ask', at)).length, 1)
  await it.reopen()
  t.same(active(), counts)
  t.same(await it.balancer.driver.observe(), [entry])
  for (const { handle } of held) t.equal(await client.tell('say', { handle, text: 'next agent' }), 'same')
  await close(held, 'fin')
  t.same(await comesTo([0, 0, 0]), [0, 0, 0])
  await it.apply({ before: entry })
})

t.test('a deletion that is taken back gives connections what they had', async (t) => {
  const entry = vip({ backends: three })
  await it.put(entry)
  const held = await open(3)
  const undo = await it.apply({ before: entry })
  t.equal(await client.tell('say', { handle: held[0]?.handle ?? 0, text: 'cut' }), 'closed')
  await undo()
  t.same(active(), [1, 1, 1], 'they count as before')
  for (const { handle } of held.slice(1)) t.equal(await client.tell('say', { handle, text: 'back' }), 'same')
  await it.apply({ before: entry })
})

t.test('a virtual address that is made anew knows nothing of the connections of the one before', async (t) => {
  const entry = vip({ protocol: 'udp', backends: [backend(1)] })
  await it.put(entry)
  const flow = { ...at, localPort: 40_200 }
  t.match(await client.tell('flow', flow), [/^b1 /])
  await it.apply({ before: entry })
  const other = vip({ id: 'other', key: 'lb/vip/other', protocol: 'udp', backends: [backend(2)] })
  await it.put(other)
  t.match(await client.tell('flow', flow), [/^b2 /])
  t.equal(it.balancer.balancer.activeConnections('other', 'b2'), 0, 'one datagram is no connection')
  t.match(await client.tell('flow', flow), [/^b2 /])
  t.equal(it.balancer.balancer.activeConnections('other', 'b2'), 1)
  await it.apply({ before: other })
})

t.same(it.problems, [])
