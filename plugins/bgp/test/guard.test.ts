/** TCP-MD5, hold time, BFD: what keeps a session honest, and what ends it. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { whyNoBgp } from '../../../test/frr.ts'
import { PATIENCE } from '../../../test/kernel-features.ts'
import { requireRoot } from '../../../test/netns.ts'
import { movesOf } from './events.ts'
import { BGP, bird, lab, NODE, PEER, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp('bird')

const KEY = '!k|ey#?x~$`;&<>'
const p1 = (more: string) =>
  `protocol bgp p1 from quick { local ${PEER[4]} as 65002; neighbor ${NODE[4]} as 65001; ${more} }`
const BASE = { peer_addr: PEER[4], peer_as: 65002, local_as: 65001 }

const INTERVAL_MS = 300
const DETECT_MS = 4 * INTERVAL_MS
/** Until two daemons and their timers get the processor on a busy machine, and it is seen here; the hold time is 60 s. */
const MARGIN_MS = 2000 * PATIENCE
/** What it takes to cut. */
const CUTTING_MS = 1000 * PATIENCE

t.test('bgp-06 only who has the key gets a session', { skip }, async (t) => {
  const { peer, sure, reaches, neighbor } = await lab(t)
  const other = await bird(t, peer, p1('password "wrong";'))
  await sure('POST', `${BGP}/neighbors`, { ...BASE, md5_key: KEY })
  // Counters of the namespace (net/ipv4/proc.c), a line of names and one of numbers.
  const tries = () => {
    const [names = [], numbers = []] = peer
      .run('grep', '^TcpExt:', '/proc/net/netstat')
      .split('\n')
      .map((line) => line.split(' '))
    return Number(numbers[names.indexOf('TCPMD5Failure')])
  }
  await until('the peer has refused segments', () => tries() > 2)
  t.not((await neighbor(PEER[4])).state, 'Established')
  t.not(other.state('p1').state, 'Established')
  other.configure(p1(''))
  await wait(1000)
  t.not((await neighbor(PEER[4])).state, 'Established', 'nor without one')
  other.configure(p1(`password "${KEY}";`))
  await reaches(PEER[4], 'Established')
})

t.test('bgp-09 a peer that falls silent is given up after the hold time', { skip }, async (t) => {
  const { peer, sure, reaches, agent, neighbor } = await lab(t)
  const other = await bird(t, peer, p1(''))
  await sure('POST', `${BGP}/neighbors`, { ...BASE, hold_time: 6, keepalive_interval: 2 })
  await reaches(PEER[4], 'Established')
  t.match(other.says('show', 'protocols', 'all', 'p1'), /Hold timer: .*\/6\b/, 'negotiated')
  const start = await neighbor(PEER[4])
  await until('keepalives', async () => (await neighbor(PEER[4])).messages_in > start.messages_in + 1)
  other.kill('SIGSTOP')
  const since = Date.now()
  await until('down', async () => (await neighbor(PEER[4])).state !== 'Established')
  const took = Date.now() - since
  other.kill('SIGCONT')
  t.ok(took > 3000, `not before the hold time (${took} ms)`)
  await until('told', () => movesOf(agent, 'neighbor.state_changed').some(({ from }) => from === 'Established'))
  await reaches(PEER[4], 'Established')
})

t.test('bgp-27 bgp-28 bgp-29 state-15 BFD tells of a loss long before the hold time', { skip }, async (t) => {
  const { node, peer, sure, reaches, neighbor, agent } = await lab(t)
  const other = await bird(t, peer, p1('bfd on;'))
  await sure('POST', `${BGP}/neighbors`, {
    ...BASE,
    hold_time: 60,
    bfd_enabled: true,
    bfd_interval_ms: INTERVAL_MS,
    bfd_multiplier: 4,
  })
  t.equal((await neighbor(PEER[4])).bfd_detect_time_ms, DETECT_MS)
  await reaches(PEER[4], 'Established')
  await until('BFD is up', async () => (await neighbor(PEER[4])).bfd_status === 'up')
  t.match(await sure('GET', `${BGP}/status`), { bfd_sessions_up: 1 })
  t.match(other.says('show', 'bfd', 'sessions'), /Up .* 0\.300 +1\.200/, 'interval and detect time on the wire')
  await until('the peer has been up for a while', () => other.state('p1').state === 'Established')
  const told = movesOf(agent, 'neighbor.state_changed').length
  peer.run(
    'nft',
    'add table inet cut; add chain inet cut i { type filter hook input priority -300; policy drop; }; add chain inet cut o { type filter hook output priority -300; policy drop; }',
  )
  // The last packet may have come through until here; at the earliest it came an interval before.
  const cut = Date.now()
  const there = until('down at the peer', () => other.state('p1').state !== 'Established' && Date.now() - cut)
  const here = until('down here', () => {
    const down = movesOf(agent, 'neighbor.state_changed')
      .slice(told)
      .find(({ from }) => from === 'Established')
    return down && Date.parse(down.last_state_change) - cut
  })
  for (const [where, took] of [
    ['at the peer', await there],
    ['here', await here],
  ] as const) {
    t.comment(`down ${where} ${took} ms after the cut`)
    t.ok(took <= DETECT_MS + MARGIN_MS, `${where}: ${took} ms`)
    t.ok(took >= DETECT_MS - INTERVAL_MS - CUTTING_MS, `${where}: not before the detect time (${took} ms)`)
  }
  await until('bfd down', async () => (await neighbor(PEER[4])).bfd_status === 'down')
  t.equal(node.run('ip', 'route', 'show', 'proto', '186'), '')
  peer.run('nft', 'delete', 'table', 'inet', 'cut')
  await reaches(PEER[4], 'Established')
  const all = await until('told', () => {
    const told = movesOf(agent, 'neighbor.state_changed')
    return told.filter(({ to }) => to === 'Established').length > 1 && told
  })
  t.equal(all[0]?.from, 'Idle')
  for (const [at, { from }] of all.entries()) if (at > 0) t.equal(from, all[at - 1]?.to, 'no move is left out')
  // BFD is told once a second, and comes up again beside BGP, before it or behind.
  const bfd = await until('BFD is told to be up again', () => {
    const moves = movesOf(agent, 'bfd.state_changed').map(({ from, to }) => `${from}-${to}`)
    return moves.filter((it) => it.endsWith('-up')).length > 1 && moves
  })
  t.ok(
    bfd.some((it) => it.startsWith('up-')),
    bfd.join(),
  )
})
