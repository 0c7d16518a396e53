import { type Static, Type } from 'typebox'
import { AddressText, Hostname, Id64, Name, RowId, StringEnum, TenantId } from '../../core/schemas.ts'

export const PoolInput = Type.Object({
  name: Name,
  subnet: AddressText,
  gateway: Type.Optional(AddressText),
  range_start: Type.Optional(AddressText),
  range_end: Type.Optional(AddressText),
  is_ipv6: Type.Optional(Type.Boolean()),
  tenant_id: Type.Optional(TenantId),
})

/** `gateway` and `tenant_id` are '' where there is none. */
export const Pool = Type.Object({
  id: Id64,
  name: Type.String(),
  subnet: Type.String(),
  gateway: Type.String(),
  range_start: Type.String(),
  range_end: Type.String(),
  is_ipv6: Type.Boolean(),
  tenant_id: Type.String(),
})
export const PoolList = Type.Object({ pools: Type.Array(Pool) })
export const PoolCreated = Type.Object({ status: StringEnum(['created']), pool: Pool })
export const PoolDeleted = Type.Object({ status: StringEnum(['deleted']), id: Id64 })

export const Allocation = Type.Object({
  id: Id64,
  pool_id: Id64,
  ip: Type.String(),
  hostname: Type.String(),
})
export const AllocationList = Type.Object({ allocations: Type.Array(Allocation) })
export const AllocateInput = Type.Object({ pool_id: RowId, hostname: Type.Optional(Hostname) })
export const Allocated = Type.Object({
  status: StringEnum(['allocated']),
  id: Id64,
  pool_id: Id64,
  ip: Type.String(),
  hostname: Type.String(),
})
export const ReleaseInput = Type.Object({ pool_id: RowId, ip: AddressText })
export const Released = Type.Object({ status: StringEnum(['released']) })

export const TenantQuery = Type.Object({ tenant_id: Type.Optional(TenantId) })

/** A public address that a machine took, as the list of routed addresses shows it. */
export const PublicAddress = Type.Object({
  ip: Type.String(),
  range_id: Type.String(),
  tenant_id: Type.String(),
  used_by: Type.String(),
  mac: Type.String(),
})

export type PoolInput = Static<typeof PoolInput>
export type Pool = Static<typeof Pool>
export type Allocation = Static<typeof Allocation>
export type AllocateInput = Static<typeof AllocateInput>
export type Allocated = Static<typeof Allocated>
export type ReleaseInput = Static<typeof ReleaseInput>
export type PublicAddress = Static<typeof PublicAddress>
