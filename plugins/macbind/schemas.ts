import { type Static, Type } from 'typebox'
import { AddressText, InterfaceName, StringEnum } from '../../core/schemas.ts'

export const MODES = ['hard', 'soft'] as const

export const BindingInput = Type.Object({
  mac: AddressText,
  port_id: Type.Optional(Type.Union([Type.Literal(''), InterfaceName])),
  vlan_id: Type.Optional(Type.Integer({ minimum: 0, maximum: 4094 })),
  mode: Type.Optional(StringEnum(MODES)),
})

export const Binding = Type.Object({
  id: Type.Integer(),
  mac: Type.String(),
  port_id: Type.String({ description: 'name of the port; empty: every workload port' }),
  vlan_id: Type.Integer({ description: '0: any' }),
  mode: StringEnum(MODES),
})
export const BindingList = Type.Object({ bindings: Type.Array(Binding) })
export const BindingCreated = Type.Object({ status: StringEnum(['created']), binding: Binding })
export const BindingDeleted = Type.Object({ status: StringEnum(['deleted']), mac: Type.String() })

/** A frame that no binding of its port admits. */
export const Violation = Type.Object({
  mac: Type.String(),
  port_id: Type.String(),
  vlan_id: Type.Integer(),
  dropped: Type.Boolean(),
  suppressed: Type.Integer({ description: 'frames of this MAC on this port since the last event that were not told' }),
})

export type Binding = Static<typeof Binding>
export type BindingInput = Static<typeof BindingInput>
export type Violation = Static<typeof Violation>
