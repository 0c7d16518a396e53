/** A responder that a stranger has taken over, at the other end of the agent's socket. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { scratch } from '../../../test/build.ts'
import { fc } from '../../../test/property.ts'
import { dnsZone } from '../entries.ts'
import { heard, openSieve } from '../heard.ts'
import { findResponder } from '../session.ts'

const SOA = 'ns1.example.org. hostmaster.example.org. 2026010101 3600 600 604800 300'
const zone = dnsZone('dns', { name: 'example.org.', soa: SOA, soaTtl: 300 })
const news = { seq: 1, net: 1, address: '10.0.0.5', mac: '02:00:00:00:00:05', hostname: 'web', state: 'active' }
const lease = { ...news, expiresAt: 2_000_000_000, at: 1 }

t.test('what a responder says is taken as it is', async (t) => {
  for (const said of [
    ...[{ hello: { build: 'abc' } }, { leases: [lease] }, { leases: [{ ...lease, unbound: true }] }],
    ...[{ waiting: [{ key: 'dns/listener/x', reason: 'in use' }] }, { problem: 'why' }],
    ...[
      { id: 1, ok: {} },
      { id: 2, ok: { entries: [zone] } },
      { id: 3, refused: 'no' },
      { id: 4, failed: 'oh' },
    ],
  ])
    t.same(heard(JSON.parse(JSON.stringify(said))), said)
})

t.test('nothing else is, and nothing that it says throws', async (t) => {
  for (const said of [
    ...[null, 7, 'x', [], {}, { hello: null }, { hello: {} }, { leases: 5 }, { leases: [null] }, { waiting: {} }],
    ...[{ waiting: [{ key: 1 }] }, { problem: {} }, { id: 'x', ok: {} }, { id: 1 }, { id: 1, ok: null }],
    ...[{ id: 1, ok: { entries: [{ kind: 'rule', key: 'firewall/rule/1' }] } }],
    ...[{ id: 1, ok: { entries: [{ ...zone, key: 'firewall/rule/1' }] } }],
    ...[{ id: 1, ok: { entries: [{ kind: 'stray', key: 'dns/stray/1' }] } }],
    ...['10.0.0', '::1', 5].map((address) => ({ leases: [{ ...lease, address }] })),
    ...[-1, 1e300, 1.5, '1'].map((expiresAt) => ({ leases: [{ ...lease, expiresAt }] })),
    ...['a b', '\u001b[2J', 'x'.repeat(300)].map((hostname) => ({ leases: [{ ...lease, hostname }] })),
  ])
    t.equal(heard(said), undefined, JSON.stringify(said).slice(0, 80))
  t.same(heard({ problem: 'a\u001b[31mb\nc' }), { problem: 'a?[31mb?c' })
  fc.assert(
    fc.property(fc.jsonValue(), (said) => {
      heard(said)
      heard({ id: 1, ok: said })
      heard({ leases: [said] })
    }),
  )
})

t.test('it cannot name another process, and ends its connection by nonsense', async (t) => {
  const path = join(scratch(t), 'responder.sock')
  const victim = spawn('sleep', ['60'])
  t.teardown(() => victim.kill())
  const connections: Socket[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    connections.push(socket)
    socket.write(`${JSON.stringify({ hello: { pid: victim.pid, build: 'x' } })}\n`)
  }).listen(path)
  t.teardown(() => server.close())
  await once(server, 'listening')
  const problems: string[] = []
  let lost = () => {}
  const ended = new Promise<void>((resolve) => {
    lost = resolve
  })
  const events = { onLost: lost, onLeases() {}, onWaiting() {}, onProblem: (text: string) => void problems.push(text) }
  const session = await findResponder(path, events)
  t.equal(session?.pid, process.pid, 'the kernel says who listens')
  connections[0]?.write('null\n')
  await ended
  t.match(problems, [/what no responder says/])
})

t.test('what it complains of fills no log', async (t) => {
  const told: string[] = []
  let now = 0
  const sieve = openSieve(
    (text) => void told.push(text),
    2,
    1000,
    () => now,
  )
  for (let n = 0; n < 100; n++) sieve('x')
  t.same(told, ['x', 'x'])
  now = 1000
  sieve('y')
  t.same(told.slice(2), ['98 more problems were not told', 'y'])
})
