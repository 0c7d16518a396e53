/** What a cluster of three agents costs, and how soon it goes on without its leader. Real agents, etcd and kernel, one machine. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Answer } from '../build.ts'
import { type ClusterNode, complete, eventually, joinBy, nodesOn, standing, succeeded } from '../cluster.ts'
import { alone } from '../faults/alone.ts'
import { leaderOf } from '../faults/disturbances.ts'
import { etcdOf } from '../faults/world.ts'
import type { Scope } from '../netns.ts'
import { quantile, type Report } from './figure.ts'

const P = '/api/v1'
const FAILOVERS = 5
const WRITES = 200
const WARM_UP = 20
const ALLOCATIONS = 50_000
const LOADED_AGENT = fileURLToPath(new URL('loaded-agent.js', import.meta.url))

export async function cluster(report: Report): Promise<void> {
  await within(async (t) => {
    const { nodes } = await nodesOn(t, 3)
    await joins(nodes, report)
    await writes(t, nodes, report)
    rss(nodes, report, 'etcd_rss')
    await failovers(nodes, report)
  })
  await within((t) => stalls(t, report))
}

/** What `work` makes is gone afterwards. */
async function within(work: (t: Scope) => Promise<void>): Promise<void> {
  const teardowns: (() => unknown)[] = []
  try {
    await work({ teardown: (undo: () => unknown) => void teardowns.push(undo) } as Scope)
  } finally {
    for (const undo of teardowns.reverse()) await undo()
  }
}

async function joins(nodes: readonly ClusterNode[], report: Report): Promise<void> {
  const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
  const timed = async (figure: string, work: () => Promise<unknown>, note: string) => {
    const since = performance.now()
    await work()
    report({ figure, value: (performance.now() - since) / 1000, unit: 's', note })
  }
  await timed('found', () => call(n1, 'POST', '/control/v1/cluster/join-codes', {}), 'first code: etcd is started')
  await timed('join_second', () => joinBy(n1, n2), 'until it is a member that votes and has the rows')
  await timed('join_third', () => joinBy(n2, n3), 'etcd wants all connected for five seconds before')
  await complete(nodes)
}

const call = async ({ agent }: ClusterNode, method: string, path: string, body?: unknown): Promise<Answer['body']> =>
  succeeded(await agent.call(method, path, body))

async function writes(t: Scope, nodes: readonly ClusterNode[], report: Report): Promise<void> {
  const { nodes: apart } = await nodesOn(t, 1)
  const leader = await leaderOf(nodes)
  const follower = nodes.find((node) => node !== leader)
  const places = { alone: apart[0], leader, follower } as Record<string, ClusterNode>
  for (const node of [apart[0], leader] as ClusterNode[]) {
    await call(node, 'POST', `${P}/ipam/pools`, { name: 'p', subnet: '10.1.0.0/16' })
  }
  await eventually(
    'the pool has come',
    async () => (await follower?.agent.call('POST', `${P}/ipam/allocate`, { pool_id: 1 }))?.status === 200,
  )
  const times: Record<string, number[]> = { alone: [], leader: [], follower: [] }
  for (let n = -WARM_UP; n < WRITES; n++) {
    for (const [place, node] of Object.entries(places)) {
      const since = performance.now()
      await call(node, 'POST', `${P}/ipam/allocate`, { pool_id: 1 })
      if (n >= 0) times[place]?.push(performance.now() - since)
    }
  }
  const p50 = (place: string) => quantile(times[place] ?? [], 0.5)
  const note = `of ${WRITES}, one place after the other`
  for (const place of Object.keys(places)) {
    report({ figure: `write_${place}_p50`, value: p50(place), unit: 'ms', note })
    report({ figure: `write_${place}_p99`, value: quantile(times[place] ?? [], 0.99), unit: 'ms', note })
  }
  for (const place of ['leader', 'follower']) {
    report({
      figure: `write_${place}_to_alone`,
      value: p50(place) / p50('alone'),
      unit: 'x',
      goal: 4,
      note: 'of the medians',
    })
  }
}

function rss(nodes: readonly ClusterNode[], report: Report, figure: string, note?: string): void {
  const sizes = nodes.map((node) => {
    const status = readFileSync(`/proc/${etcdOf(node)}/status`, 'utf8')
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024
  })
  report({ figure, value: Math.max(...sizes), unit: 'MB', note: note ?? 'the largest of three' })
}

/** By the agent alone its etcd is told to end, and hands over; with both killed, or cut off, there is an election. */
async function failovers(nodes: readonly ClusterNode[], report: Report): Promise<void> {
  const ways = {
    agent_killed: (node: ClusterNode) => void node.agent.child.kill('SIGKILL'),
    both_killed(node: ClusterNode) {
      const pid = etcdOf(node)
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
      node.agent.child.kill('SIGKILL')
    },
    cut_off: (node: ClusterNode) => node.cut(),
  }
  for (const [way, fail] of Object.entries(ways)) {
    const times: number[] = []
    for (let n = 0; n < FAILOVERS; n++) {
      const leader = await complete(nodes)
      const rest = nodes.filter((node) => node !== leader)
      const since = performance.now()
      fail(leader)
      await Promise.any(rest.map((node) => takesOver(node, leader, `${way}-${n}`)))
      times.push(performance.now() - since)
      leader.heal()
      if (way !== 'cut_off') await leader.agent.restart()
    }
    const note = `of the leader, until another leads and has taken a change, of ${FAILOVERS}`
    const seconds = (value: number) => ({ value: value / 1000, unit: 's', goal: 2.5, note })
    report({ figure: `failover_${way}_median`, ...seconds(quantile(times, 0.5)) })
    report({ figure: `failover_${way}_worst`, ...seconds(Math.max(...times)) })
  }
  await complete(nodes)
}

/** Until `node` knows another leader than `old` and has taken a change. */
async function takesOver(node: ClusterNode, old: ClusterNode, name: string): Promise<void> {
  await eventually(`${node.id} takes a change`, async () => {
    const { leader } = await standing(node)
    if (leader === '' || leader === old.id) return false
    return (await node.agent.call('POST', `${P}/tenant`, { name: `${name}-${node.id}` })).status === 201
  })
}

/** CPU of the main thread between two turns of its loop, while a node joins a cluster that has much. */
async function stalls(t: Scope, report: Report): Promise<void> {
  const { nodes } = await nodesOn(t, 3, { main: LOADED_AGENT })
  const [n1, n2, n3] = nodes as [ClusterNode, ClusterNode, ClusterNode]
  await loadModules(nodes, report)
  await call(n1, 'POST', `${P}/ipam/pools`, { name: 'p', subnet: '10.0.0.0/16' })
  await call(n1, 'POST', '/control/v1/load', { pool: 1, allocations: ALLOCATIONS })
  const seen = async (figure: string, list: readonly ClusterNode[]) => {
    for (const node of list) {
      report({
        figure: `${figure}_${node.id}`,
        value: await stall(node),
        unit: 'ms',
        goal: 20,
        note: 'CPU, longest turn',
      })
    }
  }
  await Promise.all(nodes.map(stall))
  let since = performance.now()
  await call(n1, 'POST', '/control/v1/cluster/join-codes', {})
  report({
    figure: 'found_50k',
    value: (performance.now() - since) / 1000,
    unit: 's',
    note: `${ALLOCATIONS} allocations`,
  })
  await seen('found_50k_stall', [n1])
  since = performance.now()
  await joinBy(n1, n2)
  report({
    figure: 'join_50k',
    value: (performance.now() - since) / 1000,
    unit: 's',
    note: `${ALLOCATIONS} allocations`,
  })
  await seen('join_50k_stall', [n1, n2])
  await joinBy(n1, n3)
  await complete(nodes)
  await Promise.all(nodes.map(stall))
  rss(nodes, report, 'etcd_rss_50k')
  await call(n2, 'DELETE', `${P}/ipam/pools/1`)
  await eventually('all are gone', async () => {
    const counts = await Promise.all(nodes.map((node) => call(node, 'GET', `${P}/cluster/state`)))
    return counts.every(({ ip_allocations_count }) => ip_allocations_count === 0)
  })
  await seen('delete_50k_stall', nodes)
}

/** What an agent loads when it founds or enters its first cluster is there from then on, and is no matter of how much there is. */
async function loadModules(nodes: readonly ClusterNode[], report: Report): Promise<void> {
  const [n1, ...others] = nodes as [ClusterNode, ...ClusterNode[]]
  await Promise.all(nodes.map(stall))
  const made = await call(n1, 'POST', '/control/v1/cluster/join-codes', {})
  const figure = (node: ClusterNode, value: number) => {
    report({
      figure: `first_time_stall_${node.id}`,
      value,
      unit: 'ms',
      note: 'CPU: modules are loaded, once in the life of an agent',
    })
  }
  figure(n1, await stall(n1))
  for (const node of others) {
    await joinBy(n1, node)
    figure(node, await stall(node))
    await call(node, 'POST', `${P}/cluster/leave`)
    await alone(node)
  }
  // Whoever has given a code out waits for the node that brings it.
  await call(n1, 'DELETE', `${P}/cluster/join-codes/${(made.join_code as { id: string }).id}`)
  await alone(n1)
}

async function stall({ agent }: ClusterNode): Promise<number> {
  const of = () => agent.logged.filter(({ msg }) => msg === 'stalls')
  const before = of().length
  agent.child.kill('SIGUSR2')
  await eventually('it has told', () => of().length > before)
  return Number(of().at(-1)?.longest)
}
