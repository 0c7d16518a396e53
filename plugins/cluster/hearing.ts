/**
 * A node that comes hears of the cluster from the leader's etcd alone, which trusts it only once the leader's agent has started that etcd anew.
 * An agent may stand still, or be kept from its work, while its etcd goes on and leads.
 */
import { fingerprint256 } from './authority.ts'
import type { Standing } from './standing.ts'

/** The member that leads, is away, and does not trust this authority (PEM); undefined: nothing is in the way of a node of it. */
export function deafLeader({ members, leader }: Pick<Standing, 'members' | 'leader'>, authority: string) {
  const led = members.find(({ id }) => id === leader)
  const hears = led === undefined || led.online || led.trust?.trusts.includes(fingerprint256(authority)) === true
  return hears ? undefined : led.id
}

/** Said to the operator at the node that comes. */
export const whyDeaf = (leader: string): string =>
  `member ${leader} leads the cluster, and its agent does not answer, so no node can come: ` +
  `restart stratumd on ${leader}, or remove ${leader} from another member`

export const WITHDRAWN = 'this node was admitted, and removed before it had come: make another code'
