import { type ClusterNode, succeeded } from '../../../test/cluster.ts'
import type { JoinCode } from '../schemas.ts'

/** A code that a member has made. */
export const newCode = async ({ agent }: ClusterNode) => {
  const { code, join_code } = succeeded(await agent.call('POST', '/control/v1/cluster/join-codes', {}))
  return { code: String(code), id: (join_code as JoinCode).id }
}
/** A node that comes by a code. */
export const joinWith = ({ agent }: ClusterNode, code: string) =>
  agent.call('POST', '/control/v1/cluster/join', { code })
