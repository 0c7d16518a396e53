import { type Static, Type } from 'typebox'
import { Deleted, Id, InterfaceName, StringEnum } from '../../core/schemas.ts'
import { BOND_MODES } from './tables.ts'

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

/** How a member stands; `failed` is without a carrier or, of 802.3ad, without a partner. */
export const MemberState = StringEnum(['active', 'standby', 'failed'])
const Mode = StringEnum(BOND_MODES)
const Mtu = Type.Integer({ minimum: 576, maximum: 9216 })
/** The words stand for something else in paths. */

export const BondMember = Type.Object({ interface: Type.String(), state: MemberState })
export const Bond = Type.Object({
  id: Type.String(),
  name: Type.String({ description: 'name of the network device' }),
  mode: Mode,
  mtu: Type.Integer(),
  active_slave: Type.String({ description: "the member that carries the traffic; '' in 802.3ad, where all do" }),
  members: Type.Array(BondMember),
})
export const BondInput = Type.Object({
  id: Type.Optional(Id),
  name: InterfaceName,
  mode: Mode,
  mtu: Type.Optional(Mtu),
})
export const BondList = Type.Object({ bonds: Type.Array(Bond) })
export const BondShown = Type.Object({ bond: Bond })
export const BondCreated = Type.Object({ status: StringEnum(['created']), bond: Bond })
export const BondDeleted = Deleted(Type.String())

export const Membership = Type.Object({ id: Type.String({ description: 'of the bond' }), interface: Type.String() })
export const MemberAdded = Type.Object({ status: StringEnum(['added']), ...Membership.properties })
export const MemberRemoved = Type.Object({ status: StringEnum(['removed']), ...Membership.properties })

export const MtuInput = Type.Object({ mtu: Mtu })
export const BondMtu = Type.Object({ id: Type.String(), mtu: Type.Integer() })
export const MtuSet = Type.Object({ status: StringEnum(['updated']), ...BondMtu.properties })
export const MemberMoved = Type.Object({ ...Membership.properties, from: MemberState, to: MemberState })

export type Bridge = Static<typeof Bridge>
export type Port = Static<typeof Port>
export type Nic = Static<typeof Nic>
export type Bond = Static<typeof Bond>
export type BondInput = Static<typeof BondInput>
export type MemberState = Static<typeof MemberState>
export type Membership = Static<typeof Membership>
