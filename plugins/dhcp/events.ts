import { Type } from 'typebox'
import { Lease, LeaseState } from './schemas.ts'

/** Event type → its data. A renewal that changes nothing else is none. */
export const events = {
  'lease.created': Lease,
  'lease.updated': Lease,
  'lease.state_changed': Type.Object({ ...Lease.properties, from: LeaseState, to: LeaseState }),
  'lease.deleted': Type.Object({ id: Type.Integer() }),
}
