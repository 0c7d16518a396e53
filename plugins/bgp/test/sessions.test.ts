/** Sessions with a real speaker. */
import t from 'tap'
import { whyNoBgp } from '../../../test/frr.ts'
import { requireRoot } from '../../../test/netns.ts'
import { movesOf } from './events.ts'
import { BGP, bird, lab, NODE, PEER, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp('bird')

const P1 = (
  more = '',
) => `protocol bgp p1 from quick { local ${PEER[4]} as 65002; neighbor ${NODE[4]} as 65001; ${more} ipv4 { export filter { if source != RTS_STATIC then reject; bgp_med = 55; accept; }; }; }
protocol static { ipv4; route 203.0.113.0/24 blackhole { bgp_community.add((65002,7)); }; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:5::/48 blackhole; }`
const CREATE = { peer_addr: PEER[4], peer_as: 65002, local_as: 65001, hold_time: 9 }

t.test(
  'bgp-02 bgp-03 bgp-07 bgp-08 bgp-11 bgp-12 bgp-13 bgp-10 bgp-14 bgp-16 bgp-30 bgp-01 state-15 a session comes up and tells both families',
  { skip },
  async (t) => {
    const { node, peer, sure, reaches, routes, neighbor, agent } = await lab(t)
    const other = await bird(t, peer, P1())
    const { neighbor: made } = (await sure('POST', `${BGP}/neighbors`, CREATE)) as { neighbor: Record<string, unknown> }
    t.match(made, {
      id: PEER[4],
      peer_addr: PEER[4],
      state: 'Idle',
      hold_time: 9,
      keepalive_interval: 3,
      bfd_status: 'disabled',
    })
    const up = await reaches(PEER[4], 'Established')
    t.ok(up.peer_graceful_restart, 'bgp-30')
    t.ok(up.messages_in > 0 && up.messages_out > 0)
    const found = await until('routes', async () => {
      const all = await routes()
      return all.length === 2 && all
    })
    t.match(
      found.find(({ prefix }) => prefix === '203.0.113.0/24'),
      {
        next_hop: PEER[4],
        as_path: [65002],
        communities: ['65002:7'],
        med: 55,
        origin: 'igp',
        source: 'received',
        best: true,
        peer_addr: PEER[4],
      },
    )
    t.match(await routes('?family=ipv6'), [{ prefix: '2001:db8:5::/48' }])
    await until('kernel', () =>
      node.run('ip', 'route', 'show', 'proto', '186').includes('203.0.113.0/24 via 10.7.0.2 dev e0 metric 20'),
    )
    await until('kernel 6', () => node.run('ip', '-6', 'route', 'show', 'proto', '186').includes('2001:db8:5::/48'))
    t.match(await sure('GET', `${BGP}/status`), { status: 'running', neighbors: 1, routes: 3, bfd_sessions_up: 0 })

    await sure('POST', `${BGP}/announce`, {
      prefix: '192.0.2.0/24',
      next_hop: '10.7.0.77',
      communities: ['65000:100', '1:2'],
    })
    await sure('POST', `${BGP}/announce`, { prefix: '2001:db8:1::/48', next_hop: 'fd07::77' })
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.3.0/24' })
    const told = await until('told', () => other.route('192.0.2.0/24'))
    t.match(told, /BGP\.next_hop: 10\.7\.0\.77/)
    t.match(told, /BGP\.community: \(1,2\) \(65000,100\)/)
    t.match(told, /BGP\.as_path: 65001\n/)
    t.match(await until('told 6', () => other.route('2001:db8:1::/48')), /BGP\.next_hop: fd07::77/)
    t.match(await until('told self', () => other.route('192.0.3.0/24')), /BGP\.next_hop: 10\.7\.0\.1/)
    t.match(
      (await routes())
        .filter(({ source }) => source === 'announced')
        .map(({ prefix }) => prefix)
        .sort(),
      ['192.0.2.0/24', '192.0.3.0/24'],
    )
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.2.0/24', communities: ['65000:200'] })
    await until(
      'told anew',
      () =>
        /BGP\.community: \(65000,200\)\n/.test(other.route('192.0.2.0/24') ?? '') &&
        /next_hop: 10\.7\.0\.1\n/.test(other.route('192.0.2.0/24') ?? ''),
    )
    await sure('POST', `${BGP}/withdraw`, { prefix: '192.0.2.0/24' })
    await until('withdrawn', () => other.route('192.0.2.0/24') === undefined)

    const moves = await until('each move is told', () => {
      const all = movesOf(agent, 'neighbor.state_changed')
      return all.at(-1)?.to === 'Established' && all
    })
    t.equal(moves[0]?.from, 'Idle')
    for (const [at, { from }] of moves.entries()) if (at > 0) t.equal(from, moves[at - 1]?.to, 'none is left out')
    t.same(
      moves
        .slice(-3)
        .map(({ from, to }) => `${from} ${to}`)
        .slice(1),
      ['OpenSent OpenConfirm', 'OpenConfirm Established'],
    )
    const before = await neighbor(PEER[4])
    t.equal(before.last_state_change, moves.at(-1)?.last_state_change)
    t.match(await sure('DELETE', `${BGP}/neighbors/${PEER[4]}`), { status: 'deleted', addr: PEER[4] })
    await until('bgp-10 closed by a Cease', () =>
      /Received: Peer de-configured|Cease|de-configured/i.test(other.says('show', 'protocols', 'all', 'p1')),
    )
    t.equal((await agent.call('DELETE', `${BGP}/neighbors/${PEER[4]}`)).status, 404)
    t.ok(before.last_state_change)
    await until('kernel is clean', () => node.run('ip', 'route', 'show', 'proto', '186') === '')
  },
)
