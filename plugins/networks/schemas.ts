import { type Static, Type } from 'typebox'
import { AddressText, FreeText, InterfaceName, Name, StringEnum, TenantId, Timestamp } from '../../core/schemas.ts'
import { Waiting } from '../../core/waiting.ts'
import { Warnings } from '../../core/warnings.ts'

const Flag = Type.Optional(Type.Boolean())

export const NetworkInput = Type.Object({
  name: Name,
  cidr: AddressText,
  gateway: Type.Optional(AddressText),
  vlan: Type.Optional(Type.Integer({ minimum: 1, maximum: 4094 })),
  tenant_id: Type.Optional(TenantId),
  host_gateway: Flag,
  snat: Flag,
  dhcp: Flag,
})
export const GatewayInput = Type.Object({ snat: Flag, dhcp: Flag })

export const Network = Type.Object({
  id: Type.String(),
  name: Type.String(),
  cidr: Type.String(),
  gateway: Type.Optional(Type.String()),
  vlan: Type.Optional(Type.Integer()),
  tenant_id: Type.Optional(Type.String()),
  created_at: Timestamp,
  host_gateway: Type.Object({ enabled: Type.Boolean(), snat: Type.Boolean(), dhcp: Type.Boolean() }),
})
export const NetworkList = Type.Object({ networks: Type.Array(Network) })
export const OneNetwork = Type.Object({ network: Network })
export const NetworkCreated = Type.Object({
  status: StringEnum(['created']),
  network: Network,
  pending: Waiting,
  warnings: Warnings,
})
export const NetworkUpdated = Type.Object({ status: StringEnum(['updated']), network: Network, pending: Waiting })
export const NetworkDeleted = Type.Object({ status: StringEnum(['deleted']), id: Type.String() })

export const Endpoint = Type.Object({
  id: Type.String(),
  network_id: Type.String(),
  ip: Type.String(),
  mac: Type.String(),
  state: StringEnum(['free', 'bound']),
  bound_at: Type.Optional(Timestamp),
  port: Type.Optional(Type.String({ description: 'the device that is named: no other may send as the endpoint' })),
  kept_port: Type.Optional(
    Type.String({ description: 'the first device that sent as the endpoint, while endpoint_ports is sticky' }),
  ),
})
export const EndpointList = Type.Object({ endpoints: Type.Array(Endpoint) })
export const EndpointQuery = Type.Object({ mac: Type.Optional(AddressText) })
/** Empty: none is named, and none is kept. */
export const AnyPort = Type.Union([Type.Literal(''), InterfaceName])
export const AttachInput = Type.Object({
  ip: Type.Optional(AddressText),
  mac: Type.Optional(AddressText),
  port: Type.Optional(InterfaceName),
})
export const Attached = Type.Object({ status: StringEnum(['attached']), endpoint: Endpoint })
export const MacInput = Type.Object({ mac: AddressText, port: Type.Optional(AnyPort) })
export const PortInput = Type.Object({ port: AnyPort })
export const EndpointUpdated = Type.Object({ status: StringEnum(['updated']), endpoint: Endpoint })
export const Detached = Type.Object({ status: StringEnum(['detached']), endpoint: Endpoint })

export const RangeInput = Type.Object({
  cidr: AddressText,
  tenant_id: Type.Optional(TenantId),
  description: Type.Optional(FreeText),
})
/** `tenant_id` is '' for a range that is reserved to nobody. */
export const Range = Type.Object({
  id: Type.String(),
  cidr: Type.String(),
  tenant_id: Type.String(),
  size: Type.Integer(),
  used: Type.Integer(),
  free: Type.Integer(),
  description: Type.Optional(Type.String()),
})
/** `used_by` and `mac` are '' while nobody uses it. */
export const RoutedAddress = Type.Object({
  ip: Type.String(),
  range_id: Type.String(),
  tenant_id: Type.String(),
  used_by: Type.String(),
  mac: Type.String(),
})
export const RoutedList = Type.Object({
  gateway: Type.String(),
  ranges: Type.Array(Range),
  addresses: Type.Array(RoutedAddress),
})
export const RoutedQuery = Type.Object({ tenant_id: Type.Optional(TenantId) })
export const RangeCreated = Type.Object({ status: StringEnum(['created']), range: Range })
export const RangeDeleted = Type.Object({
  status: StringEnum(['deleted']),
  id: Type.String(),
  cidr: Type.String(),
})
export const CidrQuery = Type.Object({ cidr: AddressText })

/** What a machine asks for one NIC; at least one of `network` (id or name) and `public_ip` (`auto` or an address). */
export const NicInput = Type.Object({
  network: Type.Optional(Type.String({ maxLength: 64 })),
  ip: Type.Optional(AddressText),
  mac: Type.Optional(AddressText),
  public_ip: Type.Optional(AddressText),
  port: Type.Optional(InterfaceName),
})
/** One NIC of a machine. */
export const Nic = Type.Object({
  network_id: Type.Optional(Type.String()),
  endpoint_id: Type.Optional(Type.String()),
  ip: Type.Optional(Type.String()),
  mac: Type.String(),
  public_ip: Type.Optional(Type.String()),
  port: Type.Optional(Type.String()),
})

export type NetworkInput = Static<typeof NetworkInput>
export type MacInput = Static<typeof MacInput>
export type GatewayInput = Static<typeof GatewayInput>
export type Network = Static<typeof Network>
export type Endpoint = Static<typeof Endpoint>
export type RangeInput = Static<typeof RangeInput>
export type Range = Static<typeof Range>
export type RoutedAddress = Static<typeof RoutedAddress>
export type NicInput = Static<typeof NicInput>
export type Nic = Static<typeof Nic>
