/** Whom real members trust, and how one is removed. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ClusterNode, complete, eventually } from '../../../test/cluster.ts'
import { certificatesIn, fingerprintsOf } from '../authority.ts'

const P = '/api/v1'

export const remove = (by: ClusterNode, { id }: ClusterNode) => by.agent.call('DELETE', `${P}/cluster/members/${id}`)
export const trustOf = async ({ agent }: ClusterNode) =>
  (await agent.call('GET', `${P}/cluster/status`)).body.trust as { state: string; behind: string[] } | undefined

const read = ({ agent }: ClusterNode, name: string) => readFileSync(join(agent.stateDir, 'cluster', name), 'utf8')
const trustedBy = (node: ClusterNode) => fingerprintsOf(certificatesIn(read(node, 'ca.pem')))
export const ownAuthority = (node: ClusterNode) => fingerprintsOf([read(node, 'authority.pem')])

/** They are the members, and each trusts their authorities and no other. */
export async function settled(members: readonly ClusterNode[]): Promise<void> {
  await complete(members)
  const all = members.flatMap(ownAuthority).sort().join()
  for (const node of members) {
    await eventually(
      `${node.id} trusts just those there are`,
      async () => (await trustOf(node))?.state === 'current' && trustedBy(node).join() === all,
    )
  }
}
