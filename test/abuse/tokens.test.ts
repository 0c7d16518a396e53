/**
 * Wrong tokens from many source addresses, on all three ports at once: every address is blocked for itself (an IPv6 one
 * for its /64) and nobody else is. TOKENS sets how many (10 000 in the long run), SEED makes a run repeatable.
 */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type RunningAgent, startAgent } from '../agent.ts'
import { type Netns, netns, requireRoot, veth } from '../netns.ts'
import { SEED } from '../seed.ts'
import { startInnocent } from './innocent.ts'
import { type Door, type Knocker, type Knocks, startKnocker } from './knock.ts'
import { rssOf } from './process.ts'
import { type Dice, dice } from './random.ts'

const TOKENS = Number(process.env.TOKENS ?? 360)
/** D36: as many wrong ones block an address; the others are refused whatever they are. */
const LIMIT = 10
const EACH = 12
const AT_ONCE = 8
const DOORS: readonly Door[] = ['rest', 'grpc', 'events']
const [NODE4, NODE6] = ['10.65.0.1', 'fd65::1']

interface Site {
  node: Netns
  agent: RunningAgent
  knocker: Knocker
  outside: Netns
}

/** The node, and a place outside from where one may come with any address of 10.66.0.0/16 and fd66::/32. */
async function site(t: Test, config: Record<string, string> = {}): Promise<Site> {
  const [node, outside] = [netns(t, 'nd'), netns(t, 'out')]
  veth(
    t,
    { ns: node, name: 'eth0', addr: [`${NODE4}/24`, `${NODE6}/64`] },
    { ns: outside, name: 'eth0', addr: ['10.65.0.2/24', 'fd65::2/64'] },
  )
  node.run('ip', 'route', 'add', '10.66.0.0/16', 'via', '10.65.0.2')
  node.run('ip', '-6', 'route', 'add', 'fd66::/32', 'via', 'fd65::2')
  outside.run('ip', 'route', 'add', 'local', '10.66.0.0/16', 'dev', 'lo')
  outside.run('ip', '-6', 'route', 'add', 'local', 'fd66::/32', 'dev', 'lo')
  outside.run('sysctl', '-qw', 'net.ipv6.ip_nonlocal_bind=1')
  const agent = await startAgent(t, { ns: node, config })
  return { node, agent, outside, knocker: startKnocker(outside.spawn) }
}

/** The n-th stranger: an IPv4 address, or two of one /64 in turn. */
function stranger(n: number): { from: string[]; to: string; key: string } {
  const [high, low] = [n >> 8, n & 255]
  if (n % 2 === 0) return { from: [`10.66.${high}.${low}`], to: NODE4, key: `10.66.${high}.${low}` }
  const prefix = `fd66:0:${high.toString(16)}:${low.toString(16)}`
  const key = `fd66:0:${high.toString(16)}:${low.toString(16)}::/64`
  return { from: [`${prefix}::1`, `${prefix}:ffff::2`], to: NODE6, key }
}

/** The ports in an order of chance, so that the count is shared by all three in every way. */
function shuffled(dice: Dice): Door[] {
  return Array.from({ length: EACH }, () => DOORS[dice.between(0, 2)] as Door)
}

const wrong = (n: number) => Array.from({ length: EACH }, (_, k) => `nt_wrong-${n}-${k}`)

t.test(
  'auth-21 auth-22 auth-23 auth-25 auth-27 D36 wrong tokens from many addresses block these and nobody else',
  { timeout: 60_000 + TOKENS * 30 },
  async (t) => {
    if (!requireRoot(t)) return
    const strangers = Array.from({ length: Math.ceil(TOKENS / EACH) }, (_, n) => stranger(n))
    t.comment(`TOKENS=${TOKENS} SEED=${SEED}, from ${strangers.length} addresses`)
    const { agent, knocker, outside } = await site(t)
    const innocent = startInnocent(outside.spawn)
    const errand = { url: `https://${NODE4}:7070/api/v1/status`, token: agent.token, pauseMs: 100 }
    await innocent.start({ ...errand, from: '10.65.0.2' })
    const before = rssOf(agent.child.pid)

    const chance = dice()
    const all = strangers.map(({ from, to }, n): Knocks => ({ from, to, doors: shuffled(chance), tokens: wrong(n) }))
    const outcomes = await knocker.knock(all, AT_ONCE)
    const expected = [...Array(LIMIT).fill('wrong'), ...Array(EACH - LIMIT).fill('blocked')].join()
    const odd = outcomes.findIndex((list) => list.join() !== expected)
    t.equal(
      odd,
      -1,
      odd < 0 ? 'ten are wrong, then the address is blocked' : `${JSON.stringify(all[odd])}: ${outcomes[odd]}`,
    )

    const { body } = await agent.call('GET', '/control/v1/blocks')
    const blocked = (body.blocks as { address: string }[]).map(({ address }) => address)
    t.same(blocked.sort(), strangers.map(({ key }) => key).sort(), 'these addresses are blocked, and no other')

    const [four, six] = [strangers[0], strangers[1]] as [(typeof strangers)[0], (typeof strangers)[0]]
    const right = (from: string, to: string): Knocks => ({
      from: [from],
      to,
      doors: [...DOORS],
      tokens: Array(3).fill(agent.token),
    })
    const again = await knocker.knock(
      [
        right(four.from[0] ?? '', NODE4),
        right('10.66.255.1', NODE4),
        right(six.key.replace('::/64', ':5::5'), NODE6),
        right('fd66:0:ffff:1::1', NODE6),
      ],
      1,
    )
    t.same(again[0], ['blocked', 'blocked', 'blocked'], 'the right token does not help a blocked address')
    t.same(again[1], ['in', 'in', 'in'], 'its neighbour is let in')
    t.same(again[2], ['blocked', 'blocked', 'blocked'], 'a third address of a blocked /64')
    t.same(again[3], ['in', 'in', 'in'], 'another /64')

    const { requests, failures, p99 } = await innocent.report()
    t.same(failures, [], `all of ${requests} requests of the innocent were answered`)
    const growth = rssOf(agent.child.pid) - before
    t.comment(`p99 of the innocent ${p99.toFixed(0)} ms, ${growth.toFixed(0)} MiB more`)
    t.ok(growth < 300, `${growth.toFixed(0)} MiB more`)
  },
)

t.test('auth-24 D36 a block ends by itself on all three ports', async (t) => {
  if (!requireRoot(t)) return
  const { agent, knocker } = await site(t, { api_auth_block_seconds: '2' })
  const from = ['10.66.1.1']
  const tokens = wrong(0)
  const [outcomes] = await knocker.knock([{ from, to: NODE4, doors: ['events', 'grpc', 'rest'], tokens }], 1)
  t.same(outcomes?.slice(LIMIT), ['blocked', 'blocked'])
  const right: Knocks = { from, to: NODE4, doors: [...DOORS], tokens: Array(3).fill(agent.token) }
  const start = performance.now()
  for (;;) {
    const [now = []] = await knocker.knock([right], 1)
    if (now.join() === 'in,in,in') break
    if (performance.now() - start > 10_000) return t.fail(`still ${now}`)
    await wait(200)
  }
  t.same((await agent.call('GET', '/control/v1/blocks')).body, { blocks: [] })
})
