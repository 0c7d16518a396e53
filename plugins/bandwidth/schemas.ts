import { type Static, Type } from 'typebox'
import { AddressText, Deleted, Id, Name, StringEnum } from '../../core/schemas.ts'

const MOST = Number.MAX_SAFE_INTEGER
const Rate = (description: string) => Type.Integer({ minimum: 1, maximum: MOST, description })
const Count = (description: string) => Type.Integer({ minimum: 0, maximum: MOST, description })
const Mac = AddressText

export const Direction = StringEnum(['up', 'down', 'both'], { description: 'up: what the MAC sends' })
export const Action = StringEnum(['notify', 'throttle', 'block'])
export const QuotaStatus = StringEnum(['ok', 'warning', 'exceeded'])

export const LimitInput = Type.Object({
  id: Id,
  target_mac: Mac,
  interface_id: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 0x7fffffff, description: 'ifindex of the only port it is for; 0 is any' }),
  ),
  rate_bps: Type.Optional(Rate('bits a second; may be left out in a pool: then what the pool has')),
  burst_bytes: Type.Optional(Count('bytes at once after a silence; 0 or left out: 10 ms at the rate, at least 15000')),
  guaranteed_bps: Type.Optional(Count('of its pool, what is there for this MAC alone')),
  direction: Type.Optional(Direction),
  pool_id: Type.Optional(Type.String({ maxLength: 64, description: 'empty: none' })),
})
export const Limit = Type.Object({
  id: Type.String(),
  target_mac: Type.String(),
  interface_id: Type.Integer(),
  rate_bps: Type.Integer(),
  burst_bytes: Type.Integer(),
  guaranteed_bps: Type.Integer(),
  direction: Direction,
  pool_id: Type.String(),
})
export const Pool = Type.Object({
  ID: Type.String(),
  Name: Type.String(),
  TotalBps: Type.Integer(),
  AllocatedBps: Type.Integer({ description: 'sum of the ceilings of its members; may be more than the total' }),
  Members: Type.Array(Type.String(), { description: 'MACs' }),
})
export const PoolInput = Type.Object({
  id: Id,
  total_bps: Rate('bits a second, each way'),
  name: Type.Optional(Type.Union([Type.Literal(''), Name])),
})
export const MemberInput = Type.Object({
  pool_id: Type.String({ maxLength: 64 }),
  member_mac: Mac,
  rate_bps: Type.Optional(Count('ceiling of the member in the pool; 0 or left out: the total')),
})
export const QuotaInput = Type.Object({
  id: Id,
  mac: Mac,
  monthly_limit_bytes: Rate('bytes, both ways together'),
  action: Type.Optional(Action),
  enforced: Type.Optional(Type.Boolean({ description: 'false: only counted and told' })),
})
export const Quota = Type.Object({
  id: Type.String(),
  mac: Type.String(),
  monthly_limit_bytes: Type.Integer(),
  used_bytes: Type.Integer(),
  reset_day: Type.Literal(1),
  action: Action,
  enforced: Type.Boolean(),
  current_period: Type.String({ description: 'year-month, UTC' }),
  status: QuotaStatus,
  remaining_bytes: Type.Integer(),
  throttled: Type.Boolean(),
})

export const MacQuery = Type.Object({ mac: Type.Optional(Mac) })
export const Overview = Type.Object({ limits: Type.Array(Limit), pools: Type.Array(Pool) })
/** With ?mac= the limit alone. */
export const AnyOverview = Type.Union([Overview, Limit])
const stored = StringEnum(['created', 'updated'])
export const LimitStored = Type.Object({ status: stored, limit: Limit })
export const PoolStored = Type.Object({ status: stored, id: Type.String() })
export const MemberStored = Type.Object({
  status: StringEnum(['added', 'updated']),
  pool_id: Type.String(),
  member_mac: Type.String(),
})
export const QuotaStored = Type.Object({ status: stored, quota: Quota })
export const QuotaList = Type.Object({ quotas: Type.Array(Quota) })
export const OneQuota = Type.Object({ quota: Quota })
export const Gone = Deleted(Type.String())
export const QuotaGone = Type.Object({ status: Type.Literal('deleted'), id: Type.String(), mac: Type.String() })
export const MemberGone = Type.Object({
  status: Type.Literal('removed'),
  pool_id: Type.String(),
  member_mac: Type.String(),
})

export type Direction = Static<typeof Direction>
export type Action = Static<typeof Action>
export type QuotaStatus = Static<typeof QuotaStatus>
export type Limit = Static<typeof Limit>
export type LimitInput = Static<typeof LimitInput>
export type Pool = Static<typeof Pool>
export type PoolInput = Static<typeof PoolInput>
export type MemberInput = Static<typeof MemberInput>
export type Quota = Static<typeof Quota>
export type QuotaInput = Static<typeof QuotaInput>
