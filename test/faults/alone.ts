/** A node becomes a member, and is by itself again. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Database } from '../../core/state/sqlite.ts'
import type { Answer } from '../build.ts'
import { type ClusterNode, eventually, standing, succeeded } from '../cluster.ts'
import { difference } from './stores.ts'
import { etcdOf } from './world.ts'

export async function newCode({ agent }: ClusterNode): Promise<string> {
  return String(succeeded(await agent.call('POST', '/control/v1/cluster/join-codes', {})).code)
}

export const enter = ({ agent }: ClusterNode, code: string): Promise<Answer> =>
  agent.call('POST', '/control/v1/cluster/join', { code })

/** On its store alone: nothing of etcd is left. */
export async function isAlone(node: ClusterNode): Promise<boolean> {
  const { peers, is_leader } = await standing(node)
  const rid = !existsSync(join(node.agent.stateDir, 'etcd')) && etcdOf(node) === undefined && !hasBegun(node)
  return rid && peers.length === 0 && is_leader
}

/** What goes on with an entry starts its etcd a moment after the agent answers. */
function hasBegun({ agent }: ClusterNode): boolean {
  const db = new Database(join(agent.stateDir, 'stratum.db'), { readonly: true, timeout: 20_000 })
  try {
    return db.prepare('SELECT 1 FROM cluster_self').get() !== undefined
  } finally {
    db.close()
  }
}

export const alone = (node: ClusterNode) => eventually(`${node.id} is by itself`, () => isAlone(node))

/** Waits until `members` hold the same. */
export async function same(members: readonly ClusterNode[]): Promise<void> {
  let found: string | undefined
  const look = () => {
    found = difference(members)
    return found === undefined
  }
  await eventually('all hold the same', look).catch((error: unknown) => {
    throw new Error(`${error}: ${found}`)
  })
}
