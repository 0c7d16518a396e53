/** Members that are away in one way or another. */
import { type ClusterNode, eventually, standing } from '../../../test/cluster.ts'
import { askEtcd } from './former-version.ts'

/** Its etcd hears nobody and nobody hears it; its agent does. Returns how it hears again, which does no harm when it does. */
export function deafen({ ns }: ClusterNode): () => void {
  for (const hook of ['input', 'output']) {
    ns.run('nft', `add table inet deaf; add chain inet deaf ${hook} { type filter hook ${hook} priority -300; }`)
    ns.run('nft', `add rule inet deaf ${hook} tcp dport 7074 drop; add rule inet deaf ${hook} tcp sport 7074 drop`)
  }
  return () => void ns.run('nft', 'add table inet deaf; delete table inet deaf')
}

/** `by`, whose agent runs, sees that `node` leads from then on; the agent of who leads before must run, too. */
export async function lead(by: ClusterNode, { id }: ClusterNode): Promise<void> {
  askEtcd(by, '/meta/yield', { put: { '/meta/yield': id } })
  await eventually(`${id} leads`, async () => (await standing(by)).leader === id)
  askEtcd(by, '/meta/yield', { removeAll: ['/meta/yield'] })
}

export const isOffline = async (by: ClusterNode, { id }: ClusterNode): Promise<boolean> =>
  (await standing(by)).peers.some((peer) => peer.id === id && peer.status === 'offline')

/** Its agent stands still, while its etcd goes on. Returns how it goes on, which does no harm when it has. */
export async function standStill(by: ClusterNode, node: ClusterNode): Promise<() => void> {
  node.agent.child.kill('SIGSTOP')
  await eventually(`${node.id} is away`, () => isOffline(by, node))
  return () => void node.agent.child.kill('SIGCONT')
}
