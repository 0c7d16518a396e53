import { type Static, Type } from 'typebox'
import { except, StringEnum, Timestamp } from '../../core/schemas.ts'

const ROLES = ['leader', 'follower'] as const
const State = StringEnum(ROLES, { description: 'role of this node; outside a cluster it leads itself' })
const Leader = Type.String({ description: 'node id; empty while this node knows of none' })

export const Summary = Type.Object({
  enabled: Type.Boolean({ description: 'cluster_enabled is on and cluster_address is set' }),
  node_id: Type.String(),
  state: State,
  leader: Leader,
  members: Type.Integer({ description: 'this node included' }),
  healthy: Type.Integer({ description: 'of them those that are online' }),
})
export const Peer = Type.Object({
  id: Type.String(),
  address: Type.String(),
  role: StringEnum([...ROLES, 'learner'], { description: 'learner: admitted, and does not vote yet' }),
  status: StringEnum(['online', 'offline']),
  last_seen: Type.Optional(Timestamp),
})
export const Trust = Type.Object({
  state: StringEnum(['current', 'changing'], {
    description: 'changing: a member was added or removed, and not all members trust just those there are',
  }),
  behind: Type.Array(Type.String(), {
    description: 'node ids of those that do not; one that is offline follows when it is back',
  }),
})
export const Status = Type.Object({
  node_id: Type.String(),
  state: State,
  leader: Leader,
  is_leader: Type.Boolean(),
  peers: Type.Array(Peer, { description: 'the other members' }),
  trust: Type.Optional(Trust),
})
const Count = Type.Integer({ minimum: 0 })
export const StateCounts = Type.Object({
  blocklist_count: Count,
  ip_allocations_count: Count,
  vxlan_peers_count: Count,
  floating_ips_count: Count,
  tenants_count: Count,
})

/** Written by etcd's command line and a certificate: see NODE_ID. */
const NodeId = Type.String({
  title: 'the id of a node: 1 to 63 letters, digits, dots and hyphens, the first and the last a letter or digit',
  pattern: '^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$',
  ...except(),
})
export const JoinInput = Type.Object({
  node_id: NodeId,
  address: Type.String({ maxLength: 64, description: 'IPv4 or IPv6 address by which the members reach the node' }),
})
export const Joined = Type.Object({ status: StringEnum(['joined']), node_id: Type.String() })
export const Left = Type.Object({ status: StringEnum(['left']) })
export const MemberRemoved = Type.Object({ status: StringEnum(['removed']), id: Type.String() })

export const JoinCode = Type.Object({
  id: Type.String(),
  created_at: Timestamp,
  expires_at: Timestamp,
  created_by: Type.String({ description: 'kind and label of who made it' }),
  state: StringEnum(['active', 'used', 'expired', 'revoked']),
  used_by: Type.Optional(Type.String({ description: 'node id' })),
})
export const JoinCodeList = Type.Object({ join_codes: Type.Array(JoinCode) })
export const JoinCodeRevoked = Type.Object({ status: StringEnum(['revoked']), id: Type.String() })

export type Summary = Static<typeof Summary>
export type Status = Static<typeof Status>
export type Peer = Static<typeof Peer>
export type StateCounts = Static<typeof StateCounts>
export type JoinCode = Static<typeof JoinCode>
