/** Policies on the wire, seen by the peer and in the list of routes. */
import t from 'tap'
import { whyNoBgp } from '../../../test/frr.ts'
import { requireRoot } from '../../../test/netns.ts'
import { BGP, bird, lab, NODE, PEER, sameSession, steady, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp('bird')

const PEERS = `protocol bgp p1 from quick { local ${PEER[4]} as 65002; neighbor ${NODE[4]} as 65001; }
protocol static { ipv4; route 10.1.0.0/16 blackhole; route 10.1.2.0/24 blackhole; route 10.1.2.128/25 blackhole; route 172.16.0.0/16 blackhole; }
protocol static { ipv6; route 2001:db8:5::/48 blackhole; route 2001:db8:6:1::/64 blackhole; }`

t.test(
  'bgp-24 bgp-25 bgp-26 policies filter and rewrite both ways, at once and without a break',
  { skip },
  async (t) => {
    const { node, peer, sure, reaches, routes } = await lab(t)
    const other = await bird(t, peer, PEERS)
    await sure('POST', `${BGP}/neighbors`, { peer_addr: PEER[4], peer_as: 65002, local_as: 65001 })
    await reaches(PEER[4], 'Established')
    const since = await steady(other, 'p1')
    const received = async (family = 'ipv4') =>
      (await routes(`?family=${family}`))
        .filter(({ source }) => source === 'received')
        .map(({ prefix }) => prefix)
        .sort()
    const sees = (what: readonly string[], family?: string) =>
      until(`received ${what}`, async () => (await received(family)).join() === what.join())
    await sees(['10.1.0.0/16', '10.1.2.0/24', '10.1.2.128/25', '172.16.0.0/16'])

    const list = (entries: object[]) => sure('POST', `${BGP}/prefix-lists`, { name: 'l', entries })
    await list([
      { prefix: '10.1.0.0/16', ge: 17, le: 24 },
      { prefix: '2001:db8:6::/48', ge: 64 },
    ])
    await sure('POST', `${BGP}/route-maps`, {
      name: 'in',
      entries: [{ match_prefix: 'l', set_local_pref: 333, set_community: '1:2', set_med: 9 }],
    })
    const kernel = () =>
      node
        .run('ip', 'route', 'show', 'proto', '186')
        .split('\n')
        .map((line) => line.split(' ')[0])
        .filter(Boolean)
        .sort()
    t.match(await sure('POST', `${BGP}/policy/import`, { neighbor: PEER[4], route_map: 'in' }), { pending: undefined })
    t.same(kernel(), ['10.1.2.0/24'], 'what is denied has left the kernel when the change is answered')
    t.same(await received(), ['10.1.2.0/24'])
    await sees(['2001:db8:6:1::/64'], 'ipv6')
    t.match(
      (await routes('?best=true')).filter(({ source }) => source === 'received'),
      [{ local_pref: 333, communities: ['1:2'], med: 9 }],
    )
    t.match(
      await until('the kernel follows', () => {
        const text = node.run('ip', 'route', 'show', 'proto', '186')
        return text.split('\n').length === 2 && text
      }),
      '10.1.2.0/24',
    )
    await list([
      { prefix: '10.1.0.0/16', ge: 25 },
      { prefix: '10.1.0.0/16' },
      { prefix: '0.0.0.0/0', action: 'deny', le: 32 },
    ])
    await sees(['10.1.0.0/16', '10.1.2.128/25'])
    await list([
      { prefix: '10.1.0.0/16', le: 32, action: 'deny' },
      { prefix: '0.0.0.0/0', le: 32 },
    ])
    await sees(['172.16.0.0/16'])
    await list([])
    await sees([])
    await sure('DELETE', `${BGP}/policy/import/${PEER[4]}`)
    await sees(['10.1.0.0/16', '10.1.2.0/24', '10.1.2.128/25', '172.16.0.0/16'])

    const announce = (prefix: string, more: object = {}) => sure('POST', `${BGP}/announce`, { prefix, ...more })
    await announce('192.0.2.0/24', { communities: ['5:5'], next_hop: '10.7.0.9' })
    await announce('198.51.100.0/24', { next_hop: '10.7.0.8' })
    await announce('2001:db8:1::/48', { next_hop: 'fd07::9' })
    for (const prefix of ['192.0.2.0/24', '198.51.100.0/24', '2001:db8:1::/48'])
      await until(prefix, () => other.route(prefix))
    await sure('POST', `${BGP}/prefix-lists`, { name: 'o', entries: [{ prefix: '192.0.2.0/24' }] })
    await sure('POST', `${BGP}/route-maps`, {
      name: 'out',
      entries: [{ seq: 7, match_prefix: 'o', set_med: 77, set_community: '7:7' }],
    })
    await sure('POST', `${BGP}/policy/export`, { neighbor: PEER[4], route_map: 'out' })
    await until('denied', () => other.route('198.51.100.0/24') === undefined)
    await until('denied', () => other.route('2001:db8:1::/48') === undefined)
    const told = await until('rewritten', () => {
      const text = other.route('192.0.2.0/24')
      return text?.includes('BGP.med: 77') && text
    })
    t.match(told, /BGP\.community: \(7,7\)/)
    t.match(told, /BGP\.next_hop: 10\.7\.0\.9/, 'the next hop stays')
    await sure('POST', `${BGP}/route-maps`, { name: 'out', entries: [{ action: 'deny', match_prefix: 'o' }, {}] })
    await until(
      'the other way round',
      () => other.route('192.0.2.0/24') === undefined && other.route('198.51.100.0/24')?.includes('10.7.0.8'),
    )
    await sure('DELETE', `${BGP}/policy/export/${PEER[4]}`)
    await until('all again', () => other.route('192.0.2.0/24')?.includes('(5,5)') && other.route('2001:db8:1::/48'))
    t.ok(sameSession(other, 'p1', since), 'all that in one session')
  },
)
