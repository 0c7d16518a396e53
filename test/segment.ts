/**
 * A node, another node and a neighbour on one Ethernet, each in a namespace of its own, and the agent on the first. The
 * neighbour is the node's router, so its device is the uplink. `const place = await segment(t, { config })`.
 */
import { type Ear, listen } from '../dataplane/announce/test/read.ts'
import { type AgentOptions, type RunningAgent, startAgent } from './agent.ts'
import { tap } from './frames.ts'
import { type Netns, netns, type Scope, veth } from './netns.ts'

export interface Segment {
  node: Netns
  /** Another node, which has no agent: the test does what it does. */
  other: Netns
  neighbour: Netns
  agent: RunningAgent
  /** Everything that is announced on the Ethernet, as the neighbour hears it. */
  heard: Ear
  /** MAC of `eth0`, or another device. */
  mac(ns: Netns, device?: string): string
  /** The MAC that the neighbour has in mind for an address; undefined for none. */
  known(address: string): string | undefined
  /** Whether an address of the neighbourhood answers an echo request of the neighbour. */
  answers(address: string): boolean
  /** Addresses that came to the node, as `<device> <address>/<length>`, sorted. */
  held(): string[]
  /** Plugs the node's `eth0` in, as when it was made. */
  plug(): void
  /** Sets configuration keys as stratumctl does. */
  set(values: Record<string, string>): Promise<void>
}

/** 10.9.0.0/24 and fd09::/64: the node is 1, the other node 2, the neighbour 254. */
export async function segment(t: Scope, options: Omit<AgentOptions, 'ns'> = {}): Promise<Segment> {
  const wire = netns(t, 'wire')
  const [node, other, neighbour] = [netns(t, 'node'), netns(t, 'other'), netns(t, 'near')]
  wire.run('ip', 'link', 'add', 'br0', 'type', 'bridge')
  wire.run('ip', 'link', 'set', 'br0', 'up')
  const join = (ns: Netns, n: number, port: string) => {
    veth(t, { ns, name: 'eth0', addr: [`10.9.0.${n}/24`, `fd09::${n}/64`] }, { ns: wire, name: port })
    wire.run('ip', 'link', 'set', port, 'master', 'br0')
  }
  const plug = () => {
    join(node, 1, 'p1')
    node.run('ip', 'route', 'add', 'default', 'via', '10.9.0.254')
  }
  plug()
  join(other, 2, 'p2')
  join(neighbour, 254, 'p3')
  const heard = listen(tap(t, neighbour))
  const agent = await startAgent(t, { ns: node, ...options })
  return {
    node,
    other,
    neighbour,
    agent,
    heard,
    plug,
    mac: (ns, device = 'eth0') => JSON.parse(ns.run('ip', '-j', 'link', 'show', device))[0].address,
    known(address) {
      const [found] = JSON.parse(neighbour.run('ip', '-j', 'neigh', 'show', address)) as { lladdr?: string }[]
      return found?.lladdr
    },
    answers(address) {
      const said = neighbour.run('sh', '-c', 'ping -n -c 1 -W 1 "$1" 2>&1 || true', 'ping', address)
      return / 1 received/.test(said)
    },
    held: () => heldBy(node),
    async set(values) {
      for (const [key, value] of Object.entries(values)) {
        const { status, text } = await agent.call('PUT', `/control/v1/config/${key}`, { value })
        if (status >= 300) throw new Error(`config ${key}: ${status} ${text}`)
      }
    },
  }
}

function heldBy(ns: Netns): string[] {
  const lines = ns.run('ip', '-o', 'address', 'show', 'scope', 'global').split('\n').filter(Boolean)
  const all = lines.map((line) => line.replace(/^\d+: (\S+)\s+inet6? (\S+) .*/, '$1 $2'))
  return all.filter((one) => !/ (10\.9\.[01]\.1\/24|fd09::1\/64)$/.test(one)).sort()
}

/** Looks again until it is so, which the agent or the kernel does by itself; fails after 20 s. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`still not so after 20 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
