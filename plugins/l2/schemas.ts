import { type Static, Type } from 'typebox'
import { InterfaceName, StringEnum } from '../../core/schemas.ts'

export const Bridge = Type.Object({ name: Type.String(), interfaces: Type.Array(Type.String()) })
export const BridgeInput = Type.Object({ name: InterfaceName })
export const BridgeList = Type.Object({ bridges: Type.Array(Bridge) })
export const BridgeCreated = Type.Object({ status: StringEnum(['created']), bridge: Bridge })
export const BridgeDeleted = Type.Object({ status: StringEnum(['deleted']), name: Type.String() })

export const PortInput = Type.Object({ interface: InterfaceName })
export const Port = Type.Object({ bridge: Type.String(), interface: Type.String() })
export const PortAdded = Type.Object({ status: StringEnum(['added']), ...Port.properties })
export const PortRemoved = Type.Object({ status: StringEnum(['removed']), ...Port.properties })
/** Needed where the change would cut the node off. */
export const Force = Type.Object({ force: Type.Optional(StringEnum(['0', '1'])) })

export const Nic = Type.Object({
  original_name: Type.String({ description: 'empty for an uplink that the installer renamed' }),
  stratum_name: Type.String(),
  pci: Type.String(),
  driver: Type.String(),
  speed_mbps: Type.Integer({ description: '0: unknown' }),
  status: StringEnum(['up', 'down']),
})
export const NicList = Type.Object({ nics: Type.Array(Nic) })
export const NicQuery = Type.Object({ refresh: Type.Optional(StringEnum(['0', '1'])) })

export type Bridge = Static<typeof Bridge>
export type Port = Static<typeof Port>
export type Nic = Static<typeof Nic>
