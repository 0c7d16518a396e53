/**
 * A node between two routers that both have TARGET, and a guest behind it. The routers answer with hop limits of their
 * own, so one echo request tells which way it went. The node knows its neighbours only.
 */
import { type RunningAgent, startAgent } from '../../../test/agent.ts'
import { type Netns, netns, type Scope, veth } from '../../../test/netns.ts'

export const TARGET = '198.51.100.1'
export const TARGET6 = '2001:db8:100::1'
const HOPS = { r1: 100, r2: 200 }
export type Way = keyof typeof HOPS | 'none'

export interface Site {
  node: Netns
  agent: RunningAgent
  /** Behind interface `cl` of the node. */
  guest: Netns
  /** Which router answers `from` (the node unless told); `args` go to ping. */
  way(args?: readonly string[], from?: Netns, target?: string): Way
  /** Creates; throws unless 201. Resolves to the id. */
  add(path: string, body: object): Promise<number>
  /** Ours as iproute2 tells it, sorted: the routes of all tables, the rules of both families. */
  kernel(): { routes: string[]; rules: string[] }
  /** Joins the node to router `r1` by `up1`, or `r2` by `up2`, as when it was made. */
  plug(router: 'r1' | 'r2'): void
}

export async function site(t: Scope): Promise<Site> {
  const [node, guest, r1, r2] = [netns(t, 'node'), netns(t, 'guest'), netns(t, 'r'), netns(t, 'r')]
  node.run('sysctl', '-qw', 'net.ipv4.conf.all.rp_filter=0', 'net.ipv4.conf.default.rp_filter=0')
  node.run('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
  const routers = { r1, r2 }
  const plug = (name: 'r1' | 'r2') => {
    const [ns, n] = [routers[name], name === 'r1' ? 1 : 2]
    veth(
      t,
      { ns: node, name: `up${n}`, addr: [`10.1.${n}.1/24`, `fd01:${n}::1/64`] },
      { ns, name: 'eth0', addr: [`10.1.${n}.2/24`, `fd01:${n}::2/64`] },
    )
    ns.run('sysctl', '-qw', `net.ipv4.ip_default_ttl=${HOPS[name]}`, `net.ipv6.conf.eth0.hop_limit=${HOPS[name]}`)
    ns.run('ip', 'route', 'add', 'default', 'via', `10.1.${n}.1`)
    ns.run('ip', 'route', 'add', 'default', 'via', `fd01:${n}::1`)
  }
  for (const name of ['r1', 'r2'] as const) {
    routers[name].run('ip', 'address', 'add', `${TARGET}/32`, 'dev', 'lo')
    routers[name].run('ip', 'address', 'add', `${TARGET6}/128`, 'dev', 'lo', 'nodad')
    plug(name)
  }
  veth(t, { ns: node, name: 'cl', addr: '10.1.9.1/24' }, { ns: guest, name: 'eth0', addr: '10.1.9.2/24' })
  guest.run('ip', 'route', 'add', 'default', 'via', '10.1.9.1')
  const agent = await startAgent(t, { ns: node })
  return {
    node,
    agent,
    guest,
    plug,
    way: (args = [], from = node, target = TARGET) => wayOf(from, [...args, target]),
    async add(path, body) {
      const answer = await agent.call('POST', path, body)
      if (answer.status !== 201)
        throw new Error(`POST ${path} ${JSON.stringify(body)}: ${answer.status} ${answer.text}`)
      return ((answer.body.route ?? answer.body.rule) as { id: number }).id
    },
    kernel: () => ({ routes: routesOf(node), rules: rulesOf(node) }),
  }
}

function wayOf(ns: Netns, args: readonly string[]): Way {
  // ping ends with 1 or 2 where nothing answers, which is an answer here.
  const command = ['-n', '-c', '1', '-W', '1', ...args]
  const said = ns.run('sh', '-c', 'ping "$@" 2>&1 || true', 'ping', ...command)
  const hops = Number(/ ttl=(\d+)/.exec(said)?.[1] ?? 0)
  if (hops === 0) return 'none'
  return hops > HOPS.r1 ? 'r2' : 'r1'
}

function lines(ns: Netns, ...args: string[]): string[] {
  const said = ns.run('ip', ...args).split('\n')
  return said
    .map((line) =>
      line
        .trim()
        .replace(/\s+/g, ' ')
        .replace(/ linkdown| pref medium| \[detached\]/g, ''),
    )
    .filter(Boolean)
}

function routesOf(ns: Netns): string[] {
  const question = ['route', 'show', 'table', 'all', 'proto', '201']
  return [...lines(ns, '-4', ...question), ...lines(ns, '-6', ...question)].sort()
}

function rulesOf(ns: Netns): string[] {
  const ours = (family: string) => lines(ns, family, '-d', 'rule').filter((line) => / proto 201$/.test(line))
  const named = (family: string) => ours(family).map((line) => `${family} ${line.replace(/ proto 201$/, '')}`)
  return [...named('-4'), ...named('-6')].sort()
}

/** Looks again until it is so, which the agent does by itself; fails after 20 s. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`still not so after 20 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
