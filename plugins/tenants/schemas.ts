import { type Static, type TSchema, Type } from 'typebox'
import { Name, StringEnum, Timestamp } from '../../core/schemas.ts'
import { RESOURCES, type Resource } from '../../core/tenancy.ts'
import { SeenMachine } from '../compute/offers.ts'
import { Network, RoutedAddress } from '../networks/offers.ts'

const perResource = <T extends TSchema>(schema: T) =>
  Object.fromEntries(RESOURCES.map((resource) => [resource, schema])) as Record<Resource, T>

export const TenantInput = Type.Object({ name: Name })
export const TenantChange = Type.Object({
  name: Type.Optional(Name),
  status: Type.Optional(StringEnum(['active', 'suspended', 'deleted'], { description: 'deleted: as DELETE does' })),
})
export const Tenant = Type.Object({
  id: Type.String(),
  name: Type.String(),
  status: StringEnum(['active', 'suspended']),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export const TenantList = Type.Object({ tenants: Type.Array(Tenant) })
export const OneTenant = Type.Object({ tenant: Tenant })
export const TenantCreated = Type.Object({ status: StringEnum(['created']), tenant: Tenant })
export const TenantDeleted = Type.Object({ status: StringEnum(['deleted']), id: Type.String() })
export const TenantUpdated = Type.Union([
  Type.Object({ status: StringEnum(['updated']), tenant: Tenant }),
  TenantDeleted,
])

const Limit = Type.Integer({ minimum: -1, maximum: Number.MAX_SAFE_INTEGER, description: '0 or -1: unlimited' })
export const QuotaInput = Type.Object(perResource(Type.Optional(Limit)))
export const Usage = Type.Object(perResource(Type.Integer()))
export const Quota = Type.Object({
  tenant_id: Type.String(),
  limits: Type.Object(perResource(Type.Integer({ description: '0: unlimited' }))),
  usage: Usage,
  updated_at: Timestamp,
})
export const OneQuota = Type.Object({ quota: Quota })
export const QuotaUpdated = Type.Object({ status: StringEnum(['updated']), quota: Quota })

export const KeyInput = Type.Object({
  label: Name,
  expires_at: Type.Optional(
    Type.String({
      title: 'a time such as 2030-01-31T12:00:00Z (RFC 3339)',
      pattern: '^[ -~]{0,40}$',
      description: 'RFC 3339',
    }),
  ),
})
export const Key = Type.Object({
  id: Type.String(),
  tenant_id: Type.String(),
  label: Type.String(),
  prefix: Type.String({ description: 'how the key begins' }),
  created_at: Timestamp,
  last_used_at: Type.Optional(Timestamp),
  expires_at: Type.Optional(Timestamp),
  created_by: Type.String({ description: 'kind and label of who minted it' }),
})
export const KeyList = Type.Object({ keys: Type.Array(Key) })
export const KeyCreated = Type.Object({
  status: StringEnum(['created']),
  key: Key,
  secret: Type.String({ description: 'the key itself; shown this once' }),
})
export const KeyRevoked = Type.Object({ status: StringEnum(['revoked']), id: Type.String() })

export const NetworkList = Type.Object({ networks: Type.Array(Network) })
export const AddressList = Type.Object({ addresses: Type.Array(RoutedAddress) })
export const MachineList = Type.Object({ machines: Type.Array(SeenMachine) })
export const OneMachine = Type.Object({ machine: SeenMachine })
export const OneUsage = Type.Object({ usage: Usage })
/** Of routes that no agent answers yet; it is what they answer to nobody. */
export const Nothing = Type.Object({})

export type TenantInput = Static<typeof TenantInput>
export type TenantChange = Static<typeof TenantChange>
export type Tenant = Static<typeof Tenant>
export type TenantDeleted = Static<typeof TenantDeleted>
export type Limits = Partial<Record<Resource, number>>
export type Quota = Static<typeof Quota>
export type KeyInput = Static<typeof KeyInput>
export type Key = Static<typeof Key>
export type KeyCreated = Static<typeof KeyCreated>
