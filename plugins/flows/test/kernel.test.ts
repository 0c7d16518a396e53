import t from 'tap'
import { netns, requireRoot, veth } from '../../../test/netns.ts'
import type { Guest } from '../../../test/workload.ts'
import type { Flow, Stats } from '../schemas.ts'
import {
  A,
  B,
  bind,
  datagrams,
  exchange,
  flows,
  network,
  P,
  pair,
  SYN_HEADERS,
  TCP_HEADERS,
  UDP_HEADERS,
} from './node.ts'

requireRoot(t)
const place = await pair(t, { config: { workload_uplinks: 'up0' } })

const numbers = ({ packets_in, packets_out, bytes_in, bytes_out }: Partial<Flow>) => {
  return { packets_in, packets_out, bytes_in, bytes_out }
}
/** Asks until it is so: the last acknowledgement may still be on its way. */
async function soon<T>(ask: () => Promise<T>, is: (answer: T) => boolean): Promise<T> {
  const deadline = performance.now() + 20_000
  for (;;) {
    const answer = await ask()
    if (is(answer) || performance.now() > deadline) return answer
    await new Promise((wait) => setTimeout(wait, 20))
  }
}

t.test('flow-01 flow-03 flow-04 state-14 real traffic is a flow, to the byte, also when segmented', async (t) => {
  const { node, a, b } = place
  const [ping] = await flows(node, '?protocol=icmp')
  t.match(ping, { src_ip: A, dst_ip: B, src_port: 0, dst_port: 0, protocol: 'icmp', state: 'active' })

  await datagrams(a, B, 4000, 1000, 250)
  const one = { src_ip: A, dst_ip: B, src_port: 4000, dst_port: 4000, protocol: 'udp' }
  const [sent] = await flows(node, '?protocol=udp&port=4000')
  t.match(sent, { ...one, state: 'new', id: /^[0-9a-f]{16}$/ })
  const out = { packets_out: 250, bytes_out: 250 * (1000 + UDP_HEADERS) }
  t.same(numbers(sent ?? {}), { packets_in: 0, bytes_in: 0, ...out })
  await datagrams(b, A, 4000, 100, 50)
  const [both] = await flows(node, '?protocol=udp&port=4000')
  t.match(
    both,
    { ...one, id: sent?.id, start_time: sent?.start_time, state: 'active' },
    'the answers are of the same flow',
  )
  t.same(numbers(both ?? {}), { packets_in: 50, bytes_in: 50 * (100 + UDP_HEADERS), ...out })
  t.ok(Math.abs(Date.parse(both?.last_seen ?? '') - Date.now()) < 60_000, 'it was seen just now')

  const talk = await exchange(a, b, B, 20_000_000, 3_000_000)
  const stream = async () => (await flows(node, '?protocol=tcp'))[0]
  // Both ends are quiet by now, but for a delayed acknowledgement.
  const truth = () => {
    const { segs_out, segs_in, bytes_sent, bytes_received } = talk.sent()
    return {
      packets_in: segs_in,
      packets_out: segs_out,
      bytes_in: bytes_received + (segs_in - 1) * TCP_HEADERS + SYN_HEADERS,
      bytes_out: bytes_sent + (segs_out - 1) * TCP_HEADERS + SYN_HEADERS,
    }
  }
  const seen = await soon(stream, (flow) => JSON.stringify(numbers(flow ?? {})) === JSON.stringify(truth()))
  t.same(numbers(seen ?? {}), truth(), "the sender's own counts")
  t.ok((seen?.bytes_out ?? 0) > 20_000_000)
  t.match(seen, { src_ip: A, dst_ip: B, dst_port: 5001, protocol: 'tcp', state: 'active' })
  await talk.close()
  t.match(await soon(stream, (flow) => flow?.state === 'closed'), { id: seen?.id, state: 'closed' })

  const again = await exchange(a, b, B, 1000, 1000)
  t.equal((await flows(node, '?protocol=tcp&state=active')).length, 1)
  again.abort()
  t.equal(
    (
      await soon(
        () => flows(node, '?protocol=tcp&state=closed'),
        (all) => all.length === 2,
      )
    ).length,
    2,
    'reset',
  )
})

t.test('flow-04 flow-05 flow-06 flows of a network, filters, and who talks most', async (t) => {
  const { node, a } = place
  const guests = [node.guest('c'), node.guest('d')] as const
  const [c, d] = guests
  await node.guarded(...guests)
  const lan = await network(node, '10.0.0.0/24')
  await bind(node, lan, c, '10.0.0.1')
  await bind(node, lan, d, '10.0.0.2')
  t.ok(c.reaches('10.0.0.2'))
  await datagrams(c, '10.0.0.2', 4100, 500, 30)
  await datagrams(c, '10.0.0.2', 4101, 200, 170)
  await datagrams(a, B, 4100, 10, 1)
  const own = [...(await flows(node, '?port=4100')), ...(await flows(node, '?port=4101'))]
  const sent = own.map(({ src_ip, packets_out, bytes_out }) => {
    return { src_ip, packets_out, bytes_out }
  })
  const by = (ip: string, packets: number, size: number) => {
    return { src_ip: ip, packets_out: packets, bytes_out: packets * (size + UDP_HEADERS) }
  }
  t.same(
    sent.sort((x, y) => y.packets_out - x.packets_out),
    [by('10.0.0.1', 170, 200), by('10.0.0.1', 30, 500), by(A, 1, 10)],
  )
  t.same(await flows(node, '?ip=10.0.0.9'), [])
  t.equal((await flows(node, '?ip=10.0.0.1&protocol=17&state=new')).length, 2)
  t.equal((await flows(node, '?limit=2')).length, 2)

  // Hosts say something of themselves now and then: sums and list are of the same flows when nobody did in between.
  const sumOf = (all: Flow[]) => ({
    total_flows: all.length,
    total_packets: all.reduce((sum, flow) => sum + flow.packets_in + flow.packets_out, 0),
  })
  const between = async () => {
    const before = sumOf(await flows(node))
    const { stats } = (await node.ok('GET', `${P}/flows/stats`)) as { stats: Stats }
    return { before, stats, after: sumOf(await flows(node)) }
  }
  const still = ({ before, after }: { before: object; after: object }) =>
    JSON.stringify(before) === JSON.stringify(after)
  const { before, stats, after } = await soon(between, still)
  t.same(after, before, 'nobody says anything')
  t.match(stats, before)
  t.ok((stats.per_protocol.udp ?? 0) >= 3 && (stats.per_protocol.icmp ?? 0) >= 2)
  const ranked = stats.top_talkers.map(({ packets }) => packets)
  t.same(
    ranked,
    [...ranked].sort((x, y) => y - x),
  )
  const talker = stats.top_talkers.find(({ ip }) => ip === '10.0.0.1')
  t.ok((talker?.packets ?? 0) >= 202)
  t.match(talker, { flows: 3 })
})

t.test('flow-04 each way through the node counts once, and in is towards the workload', async (t) => {
  const { node, a } = place
  await node.ok('PUT', '/control/v1/config/open_ports', { value: 'open' })
  const far = netns(t, 'far')
  veth(t, { ns: node.ns, name: 'up0' }, { ns: far, name: 'eth0', addr: '192.0.2.9/24', mac: '02:00:00:00:00:99' })
  node.ns.run('ip', 'link', 'set', 'up0', 'master', 'br-work')
  node.ns.run('ip', 'address', 'add', '192.0.2.254/24', 'dev', 'br-work')
  const there = { ...a, ns: far }
  const here = { ...a, ns: node.ns }
  for (const address of ['192.0.2.9', '192.0.2.254']) t.ok(a.reaches(address))
  far.run('ping', '-c', '1', '-w', '10', '192.0.2.254')
  const bytes = 10 * (100 + UDP_HEADERS)
  const ways: [name: string, from: Guest, to: string, port: number, workload: 'src' | 'dst'][] = [
    ['workload to uplink', a, '192.0.2.9', 4201, 'src'],
    ['uplink to workload', there, A, 4202, 'dst'],
    ['workload to node', a, '192.0.2.254', 4203, 'src'],
    ['node to workload', here, A, 4204, 'dst'],
    ['node to uplink', here, '192.0.2.9', 4205, 'src'],
    ['uplink to node', there, '192.0.2.254', 4206, 'dst'],
    ['workload to workload', a, B, 4207, 'src'],
  ]
  for (const [name, from, to, port, inside] of ways) {
    await datagrams(from, to, port, 100, 10)
    const found = (await flows(node, `?port=${port}`)).map(numbers)
    const none = { packets_in: 0, packets_out: 0, bytes_in: 0, bytes_out: 0 }
    const sent = inside === 'src' ? { packets_out: 10, bytes_out: bytes } : { packets_in: 10, bytes_in: bytes }
    t.same(found, [{ ...none, ...sent }], name)
  }
})

t.test('flow-04 flows outlive the agent', async (t) => {
  const { node, a } = place
  await datagrams(a, B, 4300, 1000, 10)
  const [before] = await flows(node, '?port=4300')
  await node.agent.kill('SIGKILL')
  await datagrams(a, B, 4300, 1000, 10)
  await node.agent.restart()
  await datagrams(a, B, 4300, 1000, 10)
  const [after] = await flows(node, '?port=4300')
  t.match(after, { id: before?.id, packets_out: 30, bytes_out: 30 * (1000 + UDP_HEADERS) })

  await node.ok('PUT', '/control/v1/config/flow_tracking', { value: 'off' })
  await datagrams(a, B, 4301, 10, 1)
  t.same(await flows(node, '?port=4301'), [], 'none is kept when it is switched off')
  await node.ok('PUT', '/control/v1/config/flow_tracking', { value: 'on' })
  await datagrams(a, B, 4301, 10, 1)
  t.equal((await flows(node, '?port=4301')).length, 1)
})
