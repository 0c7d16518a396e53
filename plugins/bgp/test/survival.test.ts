/** What a crash leaves: the agent's, and each daemon's. */
import t from 'tap'
import { pidOf } from '../../../dataplane/frr/session.ts'
import { frrIn, whyNoBgp } from '../../../test/frr.ts'
import { requireRoot } from '../../../test/netns.ts'
import { BGP, bird, lab, NODE, PEER, sameSession, steady, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp('bird')

const KEY = 'k!|ey#?x'
const PEERS = `protocol bgp p1 from quick { local ${PEER[4]} as 65002; neighbor ${NODE[4]} as 65001; password "${KEY}"; bfd on; }
protocol static { ipv4; route 203.0.113.0/24 blackhole; route 198.51.100.0/24 blackhole; }`

t.test(
  'bgp-31 bgp-05 the agent ends or is killed, then each daemon is: session and policy are as before',
  { skip },
  async (t) => {
    const { node, peer, sure, reaches, routes, agent } = await lab(t)
    const other = await bird(t, peer, PEERS)
    const create = {
      peer_addr: PEER[4],
      peer_as: 65002,
      local_as: 65001,
      md5_key: KEY,
      bfd_enabled: true,
      bfd_multiplier: 10,
    }
    await sure('POST', `${BGP}/neighbors`, create)
    await sure('POST', `${BGP}/prefix-lists`, { name: 'some of it', entries: [{ prefix: '203.0.113.0/24' }] })
    await sure('POST', `${BGP}/route-maps`, {
      name: 'in',
      entries: [{ seq: 5, match_prefix: 'some of it', set_local_pref: 300 }],
    })
    await sure('POST', `${BGP}/policy/import`, { neighbor: PEER[4], route_map: 'in' })
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.2.0/24', next_hop: '10.7.0.77', communities: ['65001:1'] })
    const whole = async () => {
      await reaches(PEER[4], 'Established')
      await until('the peer is told', () => /next_hop: 10\.7\.0\.77/.test(other.route('192.0.2.0/24') ?? ''))
      await until('policy is in force', async () => {
        const received = (await routes()).filter(({ source }) => source === 'received')
        return received.length === 1 && received[0]?.local_pref === 300
      })
      await until('the kernel has it', () =>
        /^203\.0\.113\.0\/24 .*\n$/.test(node.run('ip', 'route', 'show', 'proto', '186')),
      )
      await until('BFD is up', async () => (await sure('GET', `${BGP}/status`)).bfd_sessions_up === 1)
    }
    await whole()
    const pids = () => (['zebra', 'bfdd', 'bgpd'] as const).map((name) => pidOf(frrIn(agent.runDir), name))
    const [since, before] = [await steady(other, 'p1'), pids()]

    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await agent.kill(signal)
      t.match(node.run('ip', 'route', 'show', 'proto', '186'), '203.0.113.0/24', `${signal}: routes stay`)
      await agent.restart()
      await whole()
      t.same(pids(), before, 'the daemons are adopted')
      t.ok(sameSession(other, 'p1', since), 'the peer saw no break')
      const drift = (await agent.call('POST', '/control/v1/drift', {})).body
      t.match(drift, { status: 'clean' }, 'what they hold is what is stored')
    }
    t.equal(
      (await sure('GET', `${BGP}/neighbors`)) && JSON.stringify(await sure('GET', `${BGP}/neighbors`)).includes(KEY),
      false,
    )

    for (const name of ['zebra', 'bfdd', 'bgpd'] as const) {
      const pid = pidOf(frrIn(agent.runDir), name)
      t.ok(pid)
      process.kill(Number(pid), 'SIGKILL')
      await until(`${name} is back`, () => {
        const now = pidOf(frrIn(agent.runDir), name)
        return now !== undefined && now !== pid
      })
      await whole()
      t.pass(`${name} is back, and with it all that was`)
    }
    t.notOk(JSON.stringify(agent.logged).includes(KEY), 'the key is not logged')
  },
)
