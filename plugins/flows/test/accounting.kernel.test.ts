import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import type { Billing, Percentile, Summary } from '../schemas.ts'
import { A, B, bind, datagrams, network, P, type Pair, pair, sink, UDP_HEADERS } from './node.ts'

requireRoot(t)

type Node = Pair['node']
const billed = async (node: Node) => ((await node.ok('GET', `${P}/accounting/billing?rate=2`)).billing as Billing).items
const total = async (node: Node) => (await node.ok('GET', `${P}/accounting/summary`)).summary as Summary
/** Bytes of each MAC. */
async function bytes(node: Node): Promise<Map<string, number>> {
  // An answer tells what was counted a second ago at the latest.
  await new Promise((wait) => setTimeout(wait, 1100))
  return new Map((await billed(node)).map(({ mac, bytes_total }) => [mac, bytes_total]))
}
/** The same once nothing changes any more: what hosts say to begin with may come late. */
async function quiet(node: Node): Promise<Map<string, number>> {
  for (let last = await bytes(node); ; ) {
    const now = await bytes(node)
    if (JSON.stringify([...now]) === JSON.stringify([...last])) return now
    last = now
  }
}
const [MAC_A, MAC_B] = ['02:00:00:00:00:0a', '02:00:00:00:00:0b']

t.test('acct-01 acct-02 acct-09 what workloads send and get is accounted, whatever becomes of the agent', async (t) => {
  const { node, a, b } = await pair(t)
  // From here on nobody asks for a MAC.
  a.ns.run('ip', 'neigh', 'replace', B, 'lladdr', MAC_B, 'dev', 'eth0', 'nud', 'permanent')
  b.ns.run('ip', 'neigh', 'replace', A, 'lladdr', MAC_A, 'dev', 'eth0', 'nud', 'permanent')
  for (const { ns } of [a, b]) ns.run('sysctl', '-qw', 'net.ipv6.conf.eth0.disable_ipv6=1')
  await sink(b, 4000)
  let expected = await quiet(node)
  t.same([...expected.keys()], [MAC_A, MAC_B])

  /** Sends, and says what both must have been accounted afterwards. */
  const send = async (count: number) => {
    await datagrams(a, B, 4000, 1000, count)
    const more = count * (1000 + UDP_HEADERS)
    expected = new Map(Array.from(expected, ([mac, before]) => [mac, before + more]))
  }
  await send(1000)
  t.same(await bytes(node), expected, 'one has sent what the other got')
  const packets = (await total(node)).total_packets
  await send(10)
  await node.agent.kill('SIGKILL')
  await send(500)
  await node.agent.restart()
  t.same(await bytes(node), expected, 'killed: nothing is lost and nothing counts twice')
  await send(20)
  await node.agent.restart()
  t.same(await bytes(node), expected, 'restarted')
  const summary = await total(node)
  t.equal(summary.total_packets - packets, 2 * 530)
  t.match(summary, { total_vms: 2, active_ips: 2 })
  t.equal(
    summary.total_bytes,
    [...expected.values()].reduce((sum, value) => sum + value, 0),
  )
  t.equal(summary.total_bandwidth_gb, summary.total_bytes / 1e9)
  const { percentile_95th } = await node.ok('GET', `${P}/accounting/95th`)
  t.match(percentile_95th as Percentile, { in_mbps: Number, out_mbps: Number })
})

t.test('acct-09 a MAC keeps its account when it is bound and when it is not any more', async (t) => {
  const { node } = await pair(t)
  const guests = [node.guest('c'), node.guest('d')] as const
  const [c, d] = guests
  await node.guarded(...guests)
  const lan = await network(node, '10.0.0.0/24')
  const mac = await bind(node, lan, c, '10.0.0.1')
  await bind(node, lan, d, '10.0.0.2')
  t.ok(c.reaches('10.0.0.2'))
  await sink(d, 4000)
  const before = (await quiet(node)).get(mac) ?? 0
  await datagrams(c, '10.0.0.2', 4000, 1000, 300)
  await node.ok('DELETE', `/control/v1/compute/machines/${c.port}`)
  const after = (await bytes(node)).get(mac) ?? 0
  t.ok(after - before >= 300 * (1000 + UDP_HEADERS), `${after - before} bytes are told although it is gone`)
  t.ok(after - before < 300 * (1000 + UDP_HEADERS) + 2000)
})

t.test('acct-02 a frame to a bound MAC counts at the port that has it, and nowhere while it is flooded', async (t) => {
  const { node } = await pair(t)
  const guests = [node.guest('c'), node.guest('d'), node.guest('e')] as const
  const [c, d, e] = guests
  await node.guarded(...guests)
  const lan = await network(node, '10.0.0.0/24')
  await bind(node, lan, c, '10.0.0.1')
  await bind(node, lan, d, '10.0.0.2')
  const wanted = { machine: 'late', network: lan, ip: '10.0.0.3' }
  const { nic } = (await node.ok('POST', '/control/v1/compute/machines', wanted)) as { nic: { mac: string } }
  // Its frames are flooded: nobody has sent from it.
  c.ns.run('ip', 'neigh', 'replace', '10.0.0.3', 'lladdr', nic.mac, 'dev', 'eth0', 'nud', 'permanent')
  t.ok(c.reaches('10.0.0.2'))
  await datagrams(c, '10.0.0.3', 4000, 1000, 100)
  t.equal((await quiet(node)).get(nic.mac), undefined, 'none has got them')

  e.setMac(nic.mac)
  e.ns.run('ip', 'address', 'add', '10.0.0.3/24', 'dev', 'eth0')
  t.ok(e.reaches('10.0.0.1'))
  await sink(e, 4000)
  const before = (await quiet(node)).get(nic.mac) ?? 0
  await datagrams(c, '10.0.0.3', 4000, 1000, 100)
  const more = ((await bytes(node)).get(nic.mac) ?? 0) - before
  t.ok(more >= 100 * (1000 + UDP_HEADERS) && more < 100 * (1000 + UDP_HEADERS) + 2000, `${more} bytes, each once`)
})
