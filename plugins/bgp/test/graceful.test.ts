/** Graceful restart (RFC 4724) as the peer sees it, and packets meanwhile. */
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { pidOf } from '../../../dataplane/frr/session.ts'
import { frrIn, whyNoBgp } from '../../../test/frr.ts'
import { type Netns, requireRoot } from '../../../test/netns.ts'
import { BGP, bird, lab, NODE, PEER, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp('bird')

const SPEAKER = `protocol bgp p1 from quick { local ${PEER[4]} as 65002; neighbor ${NODE[4]} as 65001; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }
protocol static { ipv4; route 203.0.113.0/24 blackhole; }`
const [OURS, THEIRS] = ['192.0.2.1', '203.0.113.1']

/** Sends a packet every 20 ms until `stop`, which resolves with how many there were and how many were answered. */
function packets(ns: Netns, from: string, to: string) {
  const child = ns.spawn('ping', ['-n', '-q', '-i', '0.02', '-W', '2', '-I', from, to], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  return async () => {
    child.kill('SIGINT')
    await once(child, 'close')
    const [, sent, answered] = /(\d+) packets transmitted, (\d+) received/.exec(said) ?? []
    return { sent: Number(sent), answered: Number(answered) }
  }
}

t.test(
  'bgp-30 bgp-31 the peer keeps our routes while bgpd is away, and packets go on along all of them',
  { skip },
  async (t) => {
    const { node, peer, sure, reaches, agent } = await lab(t)
    node.run('ip', 'address', 'add', `${OURS}/32`, 'dev', 'lo')
    peer.run('ip', 'address', 'add', `${THEIRS}/32`, 'dev', 'lo')
    const other = await bird(t, peer, SPEAKER)
    await sure('POST', `${BGP}/neighbors`, { peer_addr: PEER[4], peer_as: 65002, local_as: 65001 })
    await sure('POST', `${BGP}/announce`, { prefix: '192.0.2.0/24' })
    const places = frrIn(agent.runDir)
    const restarting = () => other.says('show', 'protocols', 'all', 'p1').includes('Neighbor graceful restart active')
    const whole = async () => {
      await reaches(PEER[4], 'Established')
      await until('told', () => other.route('192.0.2.0/24') !== undefined && !restarting())
      await until('here', () => node.run('ip', 'route', 'show', 'proto', '186').includes('203.0.113.0/24'))
      await until('there', () => peer.run('ip', 'route', 'show', 'proto', 'bird').includes('192.0.2.0/24'))
    }
    await whole()
    const flowing = () => {
      const ways = [packets(node, OURS, THEIRS), packets(peer, THEIRS, OURS)]
      return async (when: string) => {
        for (const stop of ways) {
          const { sent, answered } = await stop()
          t.comment(`${when}: ${answered} of ${sent} packets`)
          t.ok(sent > 20, `${when}: packets were sent`)
          // Those under way when it ends may not be.
          t.ok(sent - answered <= 2, `${when}: ${answered} of ${sent} were answered`)
        }
      }
    }

    for (const name of ['bgpd', 'zebra', 'bfdd'] as const) {
      const stop = flowing()
      const pid = pidOf(places, name)
      process.kill(Number(pid), 'SIGKILL')
      await until(`${name} is back`, () => ![undefined, pid].includes(pidOf(places, name)))
      await whole()
      // What a successor takes for not its own it would delete soon after its start.
      await wait(2000)
      await stop(`${name} killed`)
    }

    const stop = flowing()
    await agent.kill('SIGKILL')
    process.kill(Number(pidOf(places, 'bgpd')), 'SIGKILL')
    await until('the peer waits for it', restarting)
    for (let looks = 0; looks < 20; looks++) t.ok(other.route('192.0.2.0/24'), 'and keeps the route')
    t.match(peer.run('ip', 'route', 'show', 'proto', 'bird'), '192.0.2.0/24')
    t.match(node.run('ip', 'route', 'show', 'proto', '186'), '203.0.113.0/24')
    await agent.restart()
    await whole()
    await stop('agent and bgpd killed')
  },
)
