import { Type } from 'typebox'
import { Bond, Bridge, MemberMoved, Membership, Port } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'bridge.created': Bridge,
  'bridge.deleted': Type.Object({ name: Type.String() }),
  'bridge.added': Port,
  'bridge.removed': Port,
  'bond.created': Bond,
  'bond.updated': Bond,
  'bond.deleted': Type.Object({ id: Type.String() }),
  'bond_member.added': Membership,
  'bond_member.removed': Membership,
  'bond_member.state_changed': MemberMoved,
}
