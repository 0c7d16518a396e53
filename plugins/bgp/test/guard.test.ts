/** TCP-MD5, hold time, BFD: what keeps a session honest, and what ends it. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { whyNoBgp } from '../../../test/frr.ts'
import { requireRoot } from '../../../test/netns.ts'
import { movesOf } from './events.ts'
import { BGP, bird, lab, NODE, PEER, until } from './lab.ts'

if (!requireRoot(t)) process.exit()
const skip = whyNoBgp('bird')

const KEY = '!k|ey#?x~$`;&<>'
const p1 = (more: string) =>
  `protocol bgp p1 from quick { local ${PEER[4]} as 65002; neighbor ${NODE[4]} as 65001; ${more} }`
const BASE = { peer_addr: PEER[4], peer_as: 65002, local_as: 65001 }

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
    bfd_interval_ms: 300,
    bfd_multiplier: 4,
  })
  t.equal((await neighbor(PEER[4])).bfd_detect_time_ms, 1200)
  await reaches(PEER[4], 'Established')
  await until('BFD is up', async () => (await neighbor(PEER[4])).bfd_status === 'up')
  t.match(await sure('GET', `${BGP}/status`), { bfd_sessions_up: 1 })
  t.match(other.says('show', 'bfd', 'sessions'), /Up .* 0\.300 +1\.200/, 'interval and detect time on the wire')
  const since = Date.now()
  peer.run(
    'nft',
    'add table inet cut; add chain inet cut i { type filter hook input priority -300; policy drop; }; add chain inet cut o { type filter hook output priority -300; policy drop; }',
  )
  await until('down', async () => (await neighbor(PEER[4])).state !== 'Established')
  t.ok(Date.now() - since < 30_000, 'far before the hold time')
  await until('bfd down', async () => (await neighbor(PEER[4])).bfd_status === 'down')
  t.equal(node.run('ip', 'route', 'show', 'proto', '186'), '')
  peer.run('nft', 'delete', 'table', 'inet', 'cut')
  await reaches(PEER[4], 'Established')
  const all = await until('told', () => {
    const told = movesOf(agent, 'neighbor.state_changed')
    return told.filter(({ to }) => to === 'Established').length > 1 && told
  })
  t.equal(all[0]?.from, 'Idle')
  for (const [at, { from }] of all.entries())
    if (at > 0 && from !== all[at - 1]?.to) t.match(`${from} ${all[at - 1]?.to}`, /^(Connect|Active) (Connect|Active)$/)
  const bfd = movesOf(agent, 'bfd.state_changed').map(({ from, to }) => `${from}-${to}`)
  t.ok(bfd.some((it) => it.startsWith('up-')) && bfd.filter((it) => it.endsWith('-up')).length > 1, bfd.join())
})
