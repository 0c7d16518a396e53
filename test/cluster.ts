/**
 * Three real agents on one Ethernet, each in a namespace of its own, which become one cluster as operators would have them:
 * `const { nodes } = await threeAgents(t)`. `nodesOn(t, n)` stops before that.
 */
import { type AgentOptions, overTls, type RunningAgent, startAgent } from './agent.ts'
import type { Answer } from './build.ts'
import { type Netns, netns, type Scope, veth } from './netns.ts'

export interface ClusterNode {
  /** `n1`, `n2`, …: what its host is called, too. */
  readonly id: string
  /** By which the others reach it; the other family is there as well. */
  readonly address: string
  readonly ns: Netns
  /** `agent.call` is the control socket: it is the operator on that node. */
  readonly agent: RunningAgent
  /** Takes its device out of the Ethernet: nothing reaches it any more, and it sees no change of its own device. */
  cut(): void
  /** Has all that goes to it and comes from it pass `bridge`, a bridge of the wire, instead of the Ethernet. */
  via(bridge: string): void
  /** Back into the Ethernet. */
  heal(): void
}

export interface ClusterBed {
  nodes: ClusterNode[]
  /** Where the Ethernet is, as bridge `br0`. */
  wire: Netns
  /** Somebody on the same Ethernet who is no node; 10.8.0.254, fd08::254. */
  client: Netns
  /** Calls `node` over TLS from the client, as the operator. */
  ask(
    node: ClusterNode,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer>
}

export interface BedOptions extends Omit<AgentOptions, 'ns' | 'rest' | 'hostname' | 'stateDir'> {
  /** Family of the addresses that the members know each other by. */
  family?: 4 | 6
  /** Directory that is there, for the state of a node. */
  stateDirOf?: (id: string) => string
}

const addressOf = (n: number, family: 4 | 6) => (family === 4 ? `10.8.0.${n}` : `fd08::${n}`)

/** `count` nodes where clustering is enabled, and no cluster yet. */
export async function nodesOn(t: Scope, count: number, options: BedOptions = {}): Promise<ClusterBed> {
  const { family = 4, stateDirOf, ...rest } = options
  const wire = netns(t, 'wire')
  wire.run('ip', 'link', 'add', 'br0', 'type', 'bridge')
  wire.run('ip', 'link', 'set', 'br0', 'up')
  const plug = (ns: Netns, n: number) => {
    const port = `p${n}`
    veth(t, { ns, name: 'eth0', addr: [`10.8.0.${n}/24`, `fd08::${n}/64`] }, { ns: wire, name: port })
    wire.run('ip', 'link', 'set', port, 'master', 'br0')
  }
  const client = netns(t, 'near')
  plug(client, 254)
  const start = async (n: number): Promise<ClusterNode> => {
    const ns = netns(t, 'node')
    plug(ns, n)
    const [id, address] = [`n${n}`, addressOf(n, family)]
    const config = { uplink: 'eth0', cluster_enabled: 'on', cluster_address: address, ...rest.config }
    // Loading programs is the larger part of a start.
    const env = { STRATUM_CLASSIFIER: 'off', STRATUM_BALANCER: 'off', ...rest.env }
    const state = stateDirOf && { stateDir: stateDirOf(id) }
    const agent = await startAgent(t, { ...rest, ...state, ns, env, config, hostname: id })
    const port = (...args: string[]) => wire.run('ip', 'link', 'set', `p${n}`, ...args)
    // Not `down`: then the node's own device would lose its carrier.
    const via = (bridge: string) => void port('master', bridge)
    return { id, address, ns, agent, cut: () => void port('nomaster'), via, heal: () => via('br0') }
  }
  const nodes = await Promise.all(Array.from({ length: count }, (_, at) => start(at + 1)))
  client.run('ping', '-n', '-c', '1', '-w', '20', addressOf(1, family))
  const at = (address: string) => (address.includes(':') ? `[${address}]` : address)
  return {
    nodes,
    wire,
    client,
    ask: (node, method, path, body, headers) =>
      overTls(client, `https://${at(node.address)}:7070`, 60_000)(method, path, body, headers),
  }
}

/** Three nodes that are a cluster: the first has founded it, the others came by codes of the first and the second. */
export async function threeAgents(t: Scope, options: BedOptions = {}): Promise<ClusterBed> {
  const bed = await nodesOn(t, 3, options)
  const [first, second, third] = bed.nodes as [ClusterNode, ClusterNode, ClusterNode]
  await joinBy(first, second)
  await joinBy(second, third)
  await complete(bed.nodes)
  return bed
}

/** Has `node` become a member by a code that `member` makes. @throws Error with the answer that was no success */
export async function joinBy(member: ClusterNode, node: ClusterNode): Promise<void> {
  const made = succeeded(await member.agent.call('POST', '/control/v1/cluster/join-codes', {}))
  succeeded(await node.agent.call('POST', '/control/v1/cluster/join', { code: made.code }))
}

export function succeeded({ status, body, text }: Answer): Record<string, unknown> {
  if (status >= 300) throw new Error(`${status} ${text}`)
  return body
}

interface Standing {
  leader: string
  is_leader: boolean
  peers: { id: string; role: string; status: string }[]
}

/** How a node sees the cluster. */
export async function standing({ agent }: ClusterNode): Promise<Standing> {
  return succeeded(await agent.call('GET', '/api/v1/cluster/status')) as unknown as Standing
}

/** Waits until all of `nodes` vote, see each other and name the same leader, and nobody else is a member. Resolves to it. */
export async function complete(nodes: readonly ClusterNode[], ms?: number): Promise<ClusterNode> {
  const others = (id: string) => nodes.map((node) => node.id).filter((one) => one !== id)
  return eventually(
    `${nodes.map(({ id }) => id).join(', ')} are a cluster`,
    async () => {
      const all = await Promise.all(nodes.map(async (node) => ({ node, ...(await standing(node)) })))
      const [{ leader = '' } = {}] = all
      const agree = all.every(({ node, leader: named, is_leader, peers }) => {
        const voters = peers.filter(({ role, status }) => role !== 'learner' && status === 'online').map(({ id }) => id)
        const same = peers.length === nodes.length - 1 && voters.sort().join() === others(node.id).join()
        return same && named === leader && is_leader === (leader === node.id)
      })
      return agree ? nodes.find(({ id }) => id === leader) : undefined
    },
    ms,
  )
}

/** Looks again until there is something, and resolves to it; fails after a minute unless told otherwise. */
export async function eventually<T>(what: string, look: () => Promise<T> | T, ms = 60_000): Promise<NonNullable<T>> {
  const deadline = Date.now() + ms
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== null && found !== false) return found
    if (Date.now() > deadline) throw new Error(`still not so after ${ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
