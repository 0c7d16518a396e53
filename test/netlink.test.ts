/** Links, addresses and routes of an area through the whole agent: refused changes, kills, devices that go and return. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  address,
  bridge,
  link,
  member,
  type NetlinkEntry,
  neighbour,
  policy,
  route,
} from '../dataplane/netlink/entries.ts'
import { type RunningAgent, startAgent } from './agent.ts'
import { type Netns, netns, requireRoot } from './netns.ts'

requireRoot(t)

const KILLS = Number(process.env.KILLS ?? 5)

const ENTRIES: NetlinkEntry[] = [
  bridge('t', 'br1', { mac: '02:00:00:00:00:01', sysctls: [['ipv4/conf/br1/arp_announce', 2]] }),
  link('t', { name: 'st1', device: { type: 'veth', peer: 'st1p' } }),
  member('t', 'nic', 'br1'),
  member('t', 'st1p', 'br1'),
  address('t', { link: 'br1', address: '10.20.0.1/24' }),
  route('t', { destination: '10.6.0.0/16', gateway: '10.20.0.2' }),
  route('t', { destination: '10.7.0.0/16', link: 'tap0' }),
  policy('t', { priority: 100, from: '10.20.0.0/24', table: 77 }),
  neighbour('t', { link: 'br1', address: '10.20.0.9', mac: '02:00:00:00:00:09' }),
]

/** All that is in the namespace, without what comes and goes by itself. */
function dump(ns: Netns): string {
  const said = [
    ['-d', '-o', 'link'],
    ['address'],
    ['route', 'show', 'table', 'all'],
    ['rule'],
    ['neigh'],
    ['-6', 'rule'],
  ].map((args) => ns.run('ip', ...args))
  return said
    .join('')
    .replace(/state \w+|\w+_timer +[\d.]+|<[^>]*>|qdisc \w+|valid_lft \w+|preferred_lft \w+| linkdown/g, '')
}

async function node(t: Test): Promise<{ ns: Netns; agent: RunningAgent }> {
  const ns = netns(t)
  ns.run('sysctl', '-qw', 'net.ipv6.conf.all.addr_gen_mode=1', 'net.ipv6.conf.default.addr_gen_mode=1')
  for (const name of ['nic', 'tap0']) {
    ns.run('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}p`)
    ns.run('ip', 'link', 'set', name, 'up')
  }
  const main = join(import.meta.dirname, 'netlink-agent.js')
  return { ns, agent: await startAgent(t, { ns, main }) }
}

const put = (agent: RunningAgent, entries: readonly NetlinkEntry[]) => agent.call('POST', '/api/v1/t', { put: entries })
const drop = (agent: RunningAgent, entries: readonly NetlinkEntry[]) =>
  agent.call('POST', '/api/v1/t', { drop: entries.map(({ key }) => key) })

/** Looks again until it is so, which the agent does by itself; fails after 20 s. */
async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`still not so after 20 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

t.test('err-11 persist-02 what is ours survives the agent, and what is refused leaves nothing', async (t) => {
  const { ns, agent } = await node(t)
  const empty = dump(ns)
  const done = await put(agent, ENTRIES)
  t.equal(done.status, 200, done.text)
  const made = dump(ns)
  for (const text of [
    'alias stratum:t',
    'cost 250',
    '10.20.0.1/24',
    '10.6.0.0/16 via 10.20.0.2',
    'lookup 77',
    '10.20.0.9',
  ]) {
    t.ok(made.includes(text), text)
  }

  const bad = route('t', { destination: '10.8.0.0/16', gateway: '198.51.100.1' })
  const refused = await put(agent, [bridge('t', 'br2'), bad])
  t.match(refused, { status: 409, body: { error: /Network is unreachable: Nexthop has invalid gateway/ } })
  t.equal(dump(ns), made)
  t.notOk(((await agent.call('GET', '/api/v1/t')).body.keys as string[]).includes(bad.key))

  await agent.kill('SIGKILL')
  t.equal(dump(ns), made, 'the agent is dead, the kernel is as it was')
  await agent.restart()
  t.equal(dump(ns), made, 'taken over')
  t.notOk(
    agent.logged.some(({ msg }) => msg === 'kernel brought to the store'),
    'without touching anything',
  )

  await agent.kill('SIGKILL')
  ns.run('ip', 'route', 'del', '10.6.0.0/16')
  ns.run('ip', 'link', 'set', 'nic', 'nomaster')
  ns.run('ip', 'link', 'set', 'br1', 'alias', 'mine')
  ns.run('ip', 'link', 'set', 'br1', 'alias', 'stratum:t')
  ns.run('ip', 'route', 'add', '10.99.0.0/16', 'dev', 'nic', 'proto', '250')
  await agent.restart()
  t.equal(dump(ns), made, 'what others did meanwhile is repaired')

  t.equal((await drop(agent, ENTRIES)).status, 200)
  t.equal(dump(ns), empty)
})

t.test('a device that goes away and returns has its routes again, without anybody', async (t) => {
  const { ns, agent } = await node(t)
  await put(agent, ENTRIES)
  const routes = () => ns.run('ip', 'route')
  const troubles = async () => JSON.stringify((await agent.call('GET', '/control/v1/services')).body)
  ns.run('ip', 'link', 'del', 'tap0')
  await until('the loss is told', async () => /interface tap0 does not exist/.test(await troubles()))
  t.notMatch(routes(), /10\.7\.0\.0/)
  await agent.restart()
  t.match(await troubles(), /interface tap0 does not exist/, 'after a restart too')
  t.match(routes(), /10\.6\.0\.0\/16 via 10\.20\.0\.2/, 'and nothing else is kept back')
  const other = route('t', { destination: '10.9.0.0/16', gateway: '10.20.0.3' })
  t.equal((await put(agent, [other])).status, 200, 'changes go on')
  t.equal((await put(agent, [route('t', { destination: '10.10.0.0/16', link: 'tap0' })])).status, 409)

  ns.run('ip', 'link', 'add', 'tap0', 'type', 'veth', 'peer', 'name', 'tap0p')
  ns.run('ip', 'link', 'set', 'tap0', 'up')
  await until('the route is back', () => /10\.7\.0\.0\/16 dev tap0 proto 250/.test(routes()))
  t.notMatch(await troubles(), /tap0/)
})

t.test(
  'persist-02 no kill leaves anything of ours that is not stored, or nobody owns',
  { timeout: 90_000 },
  async (t) => {
    const { ns, agent } = await node(t)
    const names = ['br1', 'br2', 'br3']
    const groups = names.map((name, n) => [
      bridge('t', name, { mac: `02:00:00:00:00:0${n}` }),
      link('t', { name: `st${n}`, device: { type: 'veth', peer: `st${n}p` }, master: name }),
      address('t', { link: name, address: `10.2${n}.0.1/24` }),
      route('t', { destination: `10.3${n}.0.0/16`, gateway: `10.2${n}.0.2` }),
    ])
    for (let kill = 0; kill < KILLS; kill++) {
      setTimeout(() => agent.child.kill('SIGKILL'), 15 + kill * 37)
      try {
        for (let n = kill; ; n++) {
          const group = groups[n % groups.length] ?? []
          await (n % 2 === 0 ? put(agent, group) : drop(agent, groups[(n + 2) % groups.length] ?? []))
        }
      } catch {
        // The agent is gone, which is the point.
      }
      await agent.restart()
      const stored = (await agent.call('GET', '/api/v1/t')).body.keys as string[]
      const links = Array.from(
        ns.run('ip', '-d', '-o', 'link').matchAll(/^\d+: ([^:@]+).*?alias stratum:t *$/gm),
        ([, name]) => name,
      )
      const wanted = stored.filter((key) => key.startsWith('t/link/')).map((key) => key.slice('t/link/'.length))
      t.same(links.sort(), wanted.sort(), `links after kill ${kill + 1}`)
      const all = Array.from(ns.run('ip', '-o', 'link').matchAll(/^\d+: ([^:@]+)/gm), ([, name = '']) => name)
      t.same(
        all.filter((name) => /^(br|st\d$)/.test(name)).sort(),
        wanted.sort(),
        'none is left that the agent does not know as its own',
      )
      const routes = Array.from(
        ns.run('ip', 'route').matchAll(/^(\S+) via .*proto 250/gm),
        ([, to]) => `t/route/254/${to}/0`,
      )
      t.same(routes.sort(), stored.filter((key) => key.startsWith('t/route/')).sort())
    }
  },
)
