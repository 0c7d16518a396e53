/** What happens to members: each begins, lasts while everybody writes, and ends with everything as it was. */
import { type ClusterNode, eventually, standing } from '../cluster.ts'
import { etcdOf, type World } from './world.ts'

export const KINDS = [
  'leader killed',
  'leader cut off',
  'slow line',
  'etcd stands still',
  'disk full',
  'follower killed',
  'follower cut off',
  'terminated',
  'clock set',
  'etcd killed',
  'agent stopped',
] as const
export type Kind = (typeof KINDS)[number]

export interface Running {
  /** The one that it happens to, or any. */
  node: ClusterNode
  /** For people. */
  detail: string
  end(): Promise<void>
}

const HOUR_MS = 3_600_000

/** Who leads, as most of the members see it. */
export async function leaderOf(nodes: readonly ClusterNode[]): Promise<ClusterNode> {
  return eventually('one leads', async () => {
    for (const node of nodes) {
      const seen = await standing(node).catch(() => undefined)
      if (seen?.is_leader) return node
    }
    return undefined
  })
}

export async function begin(world: World, kind: Kind, random: () => number): Promise<Running> {
  const { nodes } = world
  const leader = await leaderOf(nodes)
  const followers = nodes.filter((node) => node !== leader)
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  switch (kind) {
    case 'leader killed':
      return killed(leader, 'SIGKILL')
    case 'follower killed':
      return killed(one(followers), 'SIGKILL')
    case 'terminated':
      return killed(one(nodes), 'SIGTERM')
    case 'leader cut off':
      return cut(leader)
    case 'follower cut off':
      return cut(one(followers))
    case 'slow line':
      return slow(world, one(nodes), 50 + Math.floor(random() * 150))
    case 'clock set':
      return clockSet(world, one(nodes), one([-HOUR_MS, HOUR_MS, 24 * HOUR_MS]))
    case 'disk full':
      return full(world, one(nodes))
    case 'etcd stands still':
      return standingStill(nodes, random)
    case 'etcd killed':
      return etcdKilled(one(nodes))
    default:
      return stopped(one(nodes))
  }
}

async function killed(node: ClusterNode, signal: NodeJS.Signals): Promise<Running> {
  await node.agent.kill(signal)
  return { node, detail: signal, end: () => node.agent.restart() }
}

function cut(node: ClusterNode): Running {
  node.cut()
  return { node, detail: '', end: async () => node.heal() }
}

function slow({ relay }: World, node: ClusterNode, ms: number): Running {
  const before = relay.carried()
  relay.delay(ms)
  node.via(relay.bridge)
  const end = async () => {
    if (relay.carried() === before) throw new Error('nothing has passed the slow line')
    node.heal()
  }
  return { node, detail: `${ms} ms each way`, end }
}

function clockSet(world: World, node: ClusterNode, ms: number): Running {
  world.setClock(node, ms)
  return { node, detail: `${ms / HOUR_MS} h`, end: async () => world.setClock(node, 0) }
}

function full(world: World, node: ClusterNode): Running {
  world.fill(node)
  return { node, detail: '', end: async () => world.unfill(node) }
}

function etcdKilled(node: ClusterNode): Running {
  const pid = etcdOf(node)
  if (pid === undefined) throw new Error(`${node.id} has no etcd`)
  process.kill(pid, 'SIGKILL')
  return { node, detail: '', end: async () => {} }
}

/**
 * One after the other, at random members, for less than a second each: nobody loses the majority, but one gets what it missed and the
 * answers to its own changes at once.
 */
function standingStill(nodes: readonly ClusterNode[], random: () => number): Running {
  const state = { over: false }
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least))
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
  const work = async () => {
    while (!state.over) {
      const pid = etcdOf(nodes[Math.floor(random() * nodes.length)] as ClusterNode)
      if (pid === undefined) throw new Error('a member has no etcd')
      process.kill(pid, 'SIGSTOP')
      await pause(between(300, 900)).finally(() => process.kill(pid, 'SIGCONT'))
      await pause(between(100, 400))
    }
  }
  const done = work()
  done.catch(() => {})
  const end = async () => {
    state.over = true
    await done
  }
  return { node: nodes[0] as ClusterNode, detail: '300 to 900 ms each time', end }
}

/** Its etcd goes on. */
function stopped(node: ClusterNode): Running {
  node.agent.child.kill('SIGSTOP')
  return { node, detail: '', end: async () => void node.agent.child.kill('SIGCONT') }
}
