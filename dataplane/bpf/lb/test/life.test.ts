/** How a connection begins and ends, packet by packet, and what is no connection at all. */
import '../../../../test/inside.ts'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { bytes, u32 } from '../../codec.ts'
import { openMap } from '../../map.ts'
import { ipv4, PROTOCOL } from '../../port/test/packet.ts'
import { run } from '../../test/support.ts'
import { pinsOf } from '../open.ts'
import { tuple } from '../rows.ts'
import { backend, backendAddress, CLIENT, lab, VIP, VIP6, vip } from './lab.ts'
import { player } from './player.ts'
import { ACK, SYN, walker } from './walker.ts'
import { checksummed, segment } from './wire.ts'

requireRoot(t)

const FIN = 0x01
const RST = 0x04
const it = await lab(t, 2)
for (const n of [1, 2]) {
  run('ip', 'neighbour', 'replace', backendAddress(n), 'lladdr', `02:00:00:00:00:0${n}`, 'dev', 'br-work')
}
const play = await player(t, it.root)
const active = (id = 'web') => [1, 2].map((n) => it.balancer.balancer.activeConnections(id, `b${n}`))
const sum = (id?: string) => active(id).reduce((total, one) => total + one, 0)
/** The client says something; where it goes. */
const says = async (flags: number, port = 5000, protocol: 'tcp' | 'udp' = 'tcp') => {
  const packet = ipv4(CLIENT, VIP, PROTOCOL[protocol], segment(protocol, port, 80, flags))
  const { verdict, packet: sent } = await play('up0', checksummed(packet))
  return verdict === 'redirect' ? `b${(sent[19] ?? 0) - 10}` : verdict
}
/** A backend answers; what becomes of it. */
const answers = async (flags: number, name: string, port = 5000) => {
  const from = backendAddress(Number(name.slice(1)))
  const { verdict, packet } = await play(
    'br-work',
    checksummed(ipv4(from, CLIENT, PROTOCOL.tcp, segment('tcp', 8080, port, flags))),
  )
  return verdict === 'redirect' ? packet.subarray(12, 16).join('.') : verdict
}
const opened = async (port = 5000) => {
  const name = await says(SYN, port)
  await answers(SYN | ACK, name, port)
  await says(ACK, port)
  return name
}
const two = [backend(1), backend(2)]
const entry = vip({ backends: two })

t.test('a connection is one when its client has been answered and goes on, and not before (lb-06)', async (t) => {
  await it.put(entry)
  const name = await says(SYN)
  t.equal(await says(SYN), name, 'an opening that is sent again')
  t.same(sum(), 0)
  t.equal(await says(ACK), name)
  t.same(sum(), 0, 'nobody has answered')
  t.equal(await answers(SYN | ACK, name), VIP)
  t.same(sum(), 0)
  t.equal(await says(ACK), name)
  t.same(sum(), 1)
  t.equal(await says(SYN), name, 'an opening that comes late')
  t.equal(await says(ACK), name)
  t.same(sum(), 1)
  await it.apply({ before: entry })
})

t.test('a backend that refuses makes no connection, and the next opening is given to the next one', async (t) => {
  await it.put(entry)
  const name = await says(SYN)
  t.equal(await answers(RST | ACK, name), VIP, 'the client is told')
  t.same(sum(), 0)
  t.not(await says(SYN), name)
  await it.apply({ before: entry })
})

t.test('half-closed connections count, closed ones do not, however they close (lb-06)', async (t) => {
  await it.put(entry)
  type Step = (name: string) => Promise<unknown>
  const client = (flags: number) => () => says(flags)
  const server = (flags: number) => (name: string) => answers(flags, name)
  const ends: [string, ...Step[][]][] = [
    ['the client', [client(FIN | ACK)], [server(FIN | ACK)]],
    ['the backend', [server(FIN | ACK)], [client(FIN | ACK)]],
    ['both at once', [client(FIN | ACK), server(FIN | ACK)]],
    ['both at once, and again', ...Array(2).fill([client(FIN | ACK), server(FIN | ACK)]), [client(ACK), server(ACK)]],
    ['the client by force', [client(RST)]],
    ['the backend by force', [server(RST)]],
    ['by force behind the end', [client(FIN | ACK)], [server(FIN | ACK)], [client(RST)]],
  ]
  for (const [what, ...end] of ends) {
    const name = await opened()
    t.same(sum(), 1, what)
    for (const steps of end) await Promise.all(steps.map((step) => step(name)))
    t.same(sum(), 0, what)
  }
  const name = await opened()
  await says(FIN | ACK)
  for (const flags of [ACK, ACK]) t.equal(await answers(flags, name), VIP)
  t.same(sum(), 1, 'the backend still talks')
  await it.balancer.sweep()
  await it.balancer.sweep()
  t.same(sum(), 1)
  await answers(FIN | ACK, name)
  t.same(sum(), 0)
  await it.apply({ before: entry })
  t.same(active(), [0, 0])
})

t.test('segments of no connection go to the same backend each time, and are none', async (t) => {
  await it.put(entry)
  const first = await says(ACK, 6000)
  for (let n = 0; n < 4; n++) t.equal(await says(ACK, 6000), first)
  t.equal(await answers(RST, first, 6000), VIP)
  t.equal(await says(ACK, 6000), first)
  t.same(sum(), 0)
  await it.apply({ before: entry })
})

t.test('an id that is used anew, elsewhere: connections of the one before do not go there', async (t) => {
  const before = vip({ backends: [backend(1)] })
  await it.put(before)
  t.equal(await opened(), 'b1')
  const after = vip({ backends: [backend(1, { address: backendAddress(2) })] })
  await it.put(after, before)
  t.same(active(), [0, 0], 'it has none')
  t.equal(await answers(ACK, 'b1'), 'pass', 'the one before is none of ours')
  // As segments of no connection, which a server refuses.
  t.equal(await says(ACK), 'b2')
  t.same(active(), [0, 0])
  await it.balancer.sweep()
  t.same(active(), [0, 0])
  await it.apply({ before: after })
})

t.test('a virtual address that is made anew, of TCP: connections of the one before are none', async (t) => {
  await it.put(entry)
  const name = await opened()
  await it.apply({ before: entry })
  t.equal(await says(ACK), 'pass', 'nobody serves it')
  const other = vip({ id: 'other', key: 'lb/vip/other', backends: two.filter(({ id }) => id !== name) })
  await it.put(other)
  t.not(await says(ACK), name)
  t.same(sum('other'), 0)
  await it.apply({ before: other })
})

t.test('UDP: whoever asks once is no connection, whoever goes on is one', async (t) => {
  const datagrams = vip({ protocol: 'udp', backends: two })
  await it.put(datagrams)
  for (let port = 7000; port < 7010; port++) await says(0, port, 'udp')
  t.same(sum(), 0)
  const name = await says(0, 7000, 'udp')
  t.same(sum(), 1)
  t.equal(await says(0, 7000, 'udp'), name)
  t.same(sum(), 1)
  await it.apply({ before: datagrams })
})

t.test(
  'in a flood, direct server return remembers nothing, and all that a client sends goes to one backend',
  async (t) => {
    const beside = (n: number) => backend(n, { port: 80 })
    for (const algorithm of ['maglev', 'round-robin'] as const) {
      const direct = vip({ dsr: true, algorithm, backends: [beside(1), beside(2)] })
      await it.put(direct)
      const flood = await walker(it.root, 'up0', 0)
      await flood.send({ to: VIP, flags: SYN, clients: 1024, count: 1024 })
      t.same(await it.balancer.connections.list(), [], algorithm)
      for (let n = 0; n < 2; n++) await flood.send({ to: VIP, flags: ACK, clients: 1024, count: 1024 })
      const later = active()
      t.equal(sum(), 1024, 'known as soon as they go on')
      t.ok(
        later.every((count) => count > 400),
        later.join(),
      )
      flood.close()
      await it.apply({ before: direct })
    }
  },
)

t.test('a client whose router has changed is answered by the one that it comes by now', async (t) => {
  await it.put(entry)
  const name = await opened()
  const answeredTo = async () => {
    const answer = ipv4(backendAddress(Number(name.slice(1))), CLIENT, PROTOCOL.tcp, segment('tcp', 8080, 5000, ACK))
    return (await play('br-work', checksummed(answer))).data.subarray(0, 6).toString('hex')
  }
  t.equal(await answeredTo(), '020000000099')
  const packet = checksummed(ipv4(CLIENT, VIP, PROTOCOL.tcp, segment('tcp', 5000, 80, ACK)))
  await play('up0', packet, [], '02:00:00:00:00:98')
  t.equal(await answeredTo(), '020000000098')
  await it.apply({ before: entry })
})

t.test('a tuple that is used anew begins anew', async (t) => {
  await it.put(entry)
  const name = await opened()
  await says(FIN | ACK)
  await answers(FIN | ACK, name)
  t.not(await says(SYN), name, 'it takes its turn, as it is judged')
  await it.apply({ before: entry })
})

t.test('who opens again what another has taken the port of gets another port', async (t) => {
  const web = vip({ backends: [backend(1)] })
  const other = vip({ id: 'other', key: 'lb/vip/other', port: 81, backends: [backend(1)] })
  await it.apply({ after: web }, { after: other })
  await says(SYN)
  const ownPort = async () => {
    const packet = ipv4(CLIENT, VIP, PROTOCOL.tcp, segment('tcp', 5000, 81, SYN))
    return (await play('up0', checksummed(packet))).packet.readUInt16BE(20)
  }
  const first = await ownPort()
  t.not(first, 5000, 'two of its connections would be the same')
  t.equal(await ownPort(), first)
  const ports = openMap(join(pinsOf(it.root).pinDir, 'lb_translating4'), tuple(4), tuple(4))
  for (const [back, asked] of await ports.lookupBatch()) ports.set(back, { ...asked, sourcePort: 5001 })
  const second = await ownPort()
  t.not(second, first)
  t.equal(await ownPort(), second)
  ports.close()
  await it.apply({ before: web }, { before: other })
})

t.test('nothing begins with a backend whose row is being emptied', async (t) => {
  const one = vip({ backends: [backend(1)] })
  await it.put(one)
  const rows = openMap(join(pinsOf(it.root).pinDir, 'lb_backends'), u32, bytes(64))
  // Of struct lb_backend the generation.
  const emptied = Buffer.from(rows.get(0) ?? [])
  t.not(emptied.readUInt32LE(16), 0)
  emptied.writeUInt32LE(0, 16)
  rows.set(0, emptied)
  t.equal(await says(SYN), 'drop')
  rows.close()
  await it.apply({ before: one })
})

t.test('an echo request to a virtual address is answered', async (t) => {
  await it.put(entry)
  for (const address of [VIP, VIP6]) {
    t.match(it.client.ns.run('ping', '-n', '-c', '1', '-w', '20', address), / 0% packet loss/)
  }
  await it.apply({ before: entry })
})

t.same(it.problems, [])
