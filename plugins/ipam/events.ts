import { Type } from 'typebox'
import { Allocation, Pool, PublicAddress } from './schemas.ts'

/** Event type → its data. Pools that belong to a network come and go with the network's own events. */
export const events = {
  'pool.created': Pool,
  'pool.deleted': Type.Object({ id: Type.Integer() }),
  'allocation.created': Type.Union([Allocation, PublicAddress]),
  'allocation.deleted': Type.Union([
    Type.Object({ id: Type.Integer(), pool_id: Type.Integer(), ip: Type.String() }),
    PublicAddress,
  ]),
}
