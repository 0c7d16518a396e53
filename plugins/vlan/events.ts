import { Type } from 'typebox'
import { Policy, VlanId } from './schemas.ts'

/** Event type → its data. */
export const events = {
  'vlan.created': Policy,
  'vlan.updated': Policy,
  'vlan.deleted': Type.Object({ vlan_id: VlanId }),
}
