import { type Static, Type } from 'typebox'
import { StringEnum } from '../../core/schemas.ts'

export const VlanId = Type.Integer({ minimum: 1, maximum: 4094, description: 'IEEE 802.1Q; 0 and 4095 are reserved' })
export const Policy = Type.Object({ vlan_id: VlanId, allowed: Type.Boolean() })
export const PolicyInput = Type.Object({ vlan_id: VlanId, allowed: Type.Optional(Type.Boolean()) })
export const PolicyList = Type.Object({ vlans: Type.Array(Policy) })
export const PolicySet = Type.Object({ status: StringEnum(['created', 'updated']), vlan: Policy })
export const PolicyCleared = Type.Object({ status: StringEnum(['deleted']), vlan_id: VlanId })

export type Policy = Static<typeof Policy>
export type PolicyInput = Static<typeof PolicyInput>
