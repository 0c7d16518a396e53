import { Type } from 'typebox'
import { Limit, Pool, Quota, QuotaStatus } from './schemas.ts'

const Id = Type.Object({ id: Type.String() })
const Member = Type.Object({ pool_id: Type.String(), member_mac: Type.String() })

/** Event type → its data. */
export const events = {
  'limit.created': Limit,
  'limit.updated': Limit,
  'limit.deleted': Id,
  'bandwidth_pool.created': Pool,
  'bandwidth_pool.updated': Pool,
  'bandwidth_pool.deleted': Id,
  'pool_member.added': Member,
  'pool_member.updated': Member,
  'pool_member.removed': Member,
  'quota.created': Quota,
  'quota.updated': Quota,
  'quota.deleted': Id,
  'quota.state_changed': Type.Object({ ...Quota.properties, from: QuotaStatus, to: QuotaStatus }),
}
