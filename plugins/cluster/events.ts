import { Type } from 'typebox'
import { StringEnum } from '../../core/schemas.ts'
import { JoinCode, Peer, Trust } from './schemas.ts'

const Role = StringEnum(['leader', 'follower'])

/** Event type → its data. Of a join code never what it is. */
export const events = {
  'cluster_member.added': Type.Object({ id: Type.String(), address: Type.String() }),
  'cluster_member.removed': Type.Object({ id: Type.String() }),
  /** Of another member: it came, went, or votes from now on. */
  'cluster_member.updated': Peer,
  /** Of this node: its role. */
  'cluster_member.state_changed': Type.Object({ id: Type.String(), from: Role, to: Role }),
  /** Whether all members trust just those there are. */
  'cluster_trust.updated': Trust,
  'join_code.created': JoinCode,
  'join_code.updated': JoinCode,
  'join_code.deleted': Type.Object({ id: Type.String() }),
}
