/** Another peer than bird, IPv6 as the transport, a second AS. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { whyNoBgp } from '../../../test/frr.ts'
import { requireRoot } from '../../../test/netns.ts'
import { BGP, bird, lab, NODE, PEER, until } from './lab.ts'

if (!requireRoot(t)) process.exit()

t.test(
  'bgp-06 bgp-07 bgp-14 bgp-24 gobgpd gets a session with a key, and what it is told by policy',
  { skip: whyNoBgp('gobgpd') },
  async (t) => {
    const { node, peer, sure, reaches, routes } = await lab(t)
    const dir = mkdtempSync(join(tmpdir(), 'gobgp-'))
    t.teardown(() => rmSync(dir, { recursive: true, force: true }))
    writeFileSync(
      join(dir, 'gobgpd.toml'),
      `[global.config]
as = 65002
router-id = "${PEER[4]}"
[[neighbors]]
[neighbors.config]
neighbor-address = "${NODE[4]}"
peer-as = 65001
auth-password = "G0bgp-key"
[neighbors.timers.config]
connect-retry = 1
[[neighbors.afi-safis]]
[neighbors.afi-safis.config]
afi-safi-name = "ipv4-unicast"
[[neighbors.afi-safis]]
[neighbors.afi-safis.config]
afi-safi-name = "ipv6-unicast"
`,
    )
    peer.spawn('gobgpd', ['-f', join(dir, 'gobgpd.toml'), '--api-hosts', '127.0.0.1:50051', '--pprof-disable'], {
      stdio: 'ignore',
    })
    const gobgp = (...command: string[]) => {
      try {
        return peer.run('gobgp', ...command)
      } catch (error) {
        return String(error)
      }
    }
    await until('gobgpd answers', () => gobgp('global').includes('65002'))
    await sure('POST', `${BGP}/neighbors`, {
      peer_addr: PEER[4],
      peer_as: 65002,
      local_as: 65001,
      md5_key: 'G0bgp-key',
    })
    await reaches(PEER[4], 'Established')
    gobgp('global', 'rib', 'add', '203.0.113.0/24', 'community', '65002:9', 'med', '12', 'aspath', '65010,65011')
    const [route] = await until('a route', async () => {
      const all = await routes()
      return all.length > 0 && all
    })
    t.match(route, {
      prefix: '203.0.113.0/24',
      communities: ['65002:9'],
      as_path: [65002, 65010, 65011],
      next_hop: PEER[4],
    })
    await until('the kernel has it', () => node.run('ip', 'route', 'show', 'proto', '186').includes('203.0.113.0/24'))
    gobgp('global', 'rib', 'del', '203.0.113.0/24')
    await until(
      'and no more',
      async () => (await routes()).length === 0 && node.run('ip', 'route', 'show', 'proto', '186') === '',
    )
    await sure('POST', `${BGP}/route-maps`, { name: 'out', entries: [{ set_med: 42, set_community: '9:9' }] })
    await sure('POST', `${BGP}/policy/export`, { neighbor: PEER[4], route_map: 'out' })
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.2.0/24', next_hop: '10.7.0.33', communities: ['1:1'] })
    const rib = await until('told', () => {
      const text = gobgp('global', 'rib')
      return text.includes('192.0.2.0/24') && text
    })
    t.match(rib, /10\.7\.0\.33 .*Med: 42.*Communities: 9:9/)
    await sure('POST', `${BGP}/withdraw`, { prefix: '192.0.2.0/24' })
    await until('withdrawn', () => !gobgp('global', 'rib').includes('192.0.2.0/24'))
  },
)

t.test(
  'bgp-07 bgp-12 sessions over IPv6, and of a second AS, inside it and outside',
  { skip: whyNoBgp('bird') },
  async (t) => {
    const { node, peer, sure, reaches, routes, agent } = await lab(t)
    peer.run('ip', 'address', 'add', '10.7.0.3/24', 'dev', 'e0')
    peer.run('ip', 'address', 'add', '10.7.0.4/24', 'dev', 'e0')
    const six = `protocol bgp six from quick { local ${PEER[6]} as 65002; neighbor ${NODE[6]} as 65001; password "sechs"; bfd on; }
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:5::/48 blackhole; }`
    // To bird there can be one session with an address at a time.
    const inside = `protocol bgp inn from quick { local 10.7.0.4 as 65100; neighbor ${NODE[4]} as 65100; direct; }`
    const outside = `protocol bgp ext from quick { local 10.7.0.3 as 65003; neighbor ${NODE[4]} as 65100; }`
    const other = await bird(t, peer, `${six}\n${inside}`)
    const add = (peer_addr: string, peer_as: number, local_as: number, more = {}) =>
      sure('POST', `${BGP}/neighbors`, { peer_addr, peer_as, local_as, ...more })
    await add(PEER[6], 65_002, 65_001, { md5_key: 'sechs', bfd_enabled: true })
    await add('10.7.0.3', 65_003, 65_100)
    await add('10.7.0.4', 65_100, 65_100)
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.2.0/24', next_hop: '10.7.0.44' })
    await sure('POST', `${BGP}/announce`, { prefix: '2001:db8:1::/48' })
    for (const addr of [PEER[6], '10.7.0.4']) await reaches(addr, 'Established')
    await until('BFD over IPv6', async () => (await sure('GET', `${BGP}/status`)).bfd_sessions_up === 1)
    t.match(await until('six', () => other.route('2001:db8:1::/48')), /fd07::1/)
    await until('the kernel has it', () =>
      node.run('ip', '-6', 'route', 'show', 'proto', '186').includes('2001:db8:5::/48'),
    )
    await until('told inside', () => /\[inn .*\[i\]/.test(other.route('192.0.2.0/24') ?? ''))
    const told = await until('heard inside', async () => {
      const all = (await routes()).filter(({ peer_addr }) => peer_addr === '10.7.0.4')
      return all.length > 0 && all
    })
    t.match(told, [{ prefix: '203.0.113.0/24', local_pref: 100, as_path: [] }])
    other.configure(`${six}\n${outside}`)
    await reaches('10.7.0.3', 'Established')
    await until('seen as the second AS', () => /\[ext .*\[AS65100i\]/.test(other.route('192.0.2.0/24') ?? ''))
    t.match(await agent.call('POST', '/control/v1/drift', {}), { body: { status: 'clean' } })
  },
)
