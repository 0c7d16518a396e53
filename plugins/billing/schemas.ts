import { type Static, Type } from 'typebox'
import { StringEnum, Timestamp } from '../../core/schemas.ts'

export const SuspendInput = Type.Object({
  block_traffic: Type.Optional(
    Type.Boolean({
      description: "true: nothing passes in the tenant's networks until resume; left out: as it was, at first false",
    }),
  ),
})
export const LimitInput = Type.Object({
  rate_bps: Type.Integer({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'bits a second that the workloads of the tenant may send in all, and that they may get in all',
  }),
})

/** What is stored. */
const state = {
  tenant_id: Type.String(),
  state: StringEnum(['active', 'suspended', 'limited']),
  limit_bps: Type.Integer({ description: '0: no limit; kept while the tenant is suspended' }),
  block_traffic: Type.Boolean(),
  suspended_at: Type.Optional(Timestamp),
}
export const State = Type.Object(state)
export const Billing = Type.Object({
  ...state,
  period: Type.String({ description: 'the running month in UTC, start and end joined by a slash' }),
  bytes_total: Type.Integer({ description: 'sent and received in this month until now' }),
  gb: Type.Number({ description: 'bytes_total / 10⁹' }),
  p95_mbps: Type.Number({ description: '95th percentile of this month until now, the larger one of both directions' }),
})
export const OneBilling = Type.Object({ billing: Billing })

export const Done = <const S extends string>(status: S) =>
  Type.Object({ status: Type.Literal(status), tenant_id: Type.String(), billing: Billing })

export type State = Static<typeof State>
export type Billing = Static<typeof Billing>
export type SuspendInput = Static<typeof SuspendInput>
