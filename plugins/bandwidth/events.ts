import { Type } from 'typebox'
import { Limit, Pool, Quota } from './schemas.ts'

const Id = Type.Object({ id: Type.String() })
const Member = Type.Object({ pool_id: Type.String(), member_mac: Type.String() })

/** Event type → its data. */
export const events = {
  'limit.created': Limit,
  'limit.updated': Limit,
  'limit.deleted': Id,
  'rate_pool.created': Pool,
  'rate_pool.updated': Pool,
  'rate_pool.deleted': Id,
  'rate_pool.member_added': Member,
  'rate_pool.member_updated': Member,
  'rate_pool.member_removed': Member,
  'quota.created': Quota,
  'quota.updated': Quota,
  'quota.deleted': Id,
  'quota.warning': Quota,
  'quota.exceeded': Quota,
  'quota.reset': Quota,
}
