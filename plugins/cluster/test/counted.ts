import type { ClusterNode } from '../../../test/cluster.ts'

/** The counts of all nodes, once they are the same and as expected; undefined before. */
export async function stateCounts(nodes: readonly ClusterNode[], expected: object): Promise<object[] | undefined> {
  const all = await Promise.all(nodes.map(async ({ agent }) => (await agent.call('GET', '/api/v1/cluster/state')).body))
  const same = all.every((counts) => JSON.stringify(counts) === JSON.stringify(all[0]))
  const reached = Object.entries(expected).every(([name, count]) => all[0]?.[name] === count)
  return same && reached ? all : undefined
}
