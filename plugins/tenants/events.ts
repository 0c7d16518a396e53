import { Type } from 'typebox'
import { Key, Quota, Tenant } from './schemas.ts'

/** Event type → its data. Keys are told of by their records, which never hold the key. */
export const events = {
  'tenant.created': Tenant,
  'tenant.updated': Tenant,
  'tenant.deleted': Type.Object({ id: Type.String() }),
  'tenant_quota.updated': Quota,
  'tenant_key.created': Key,
  'tenant_key.deleted': Type.Object({ id: Type.String(), tenant_id: Type.String() }),
}
