import { type Static, Type } from 'typebox'
import { AddressText, StringEnum, Timestamp } from '../../core/schemas.ts'
import type { FLOW_STATES } from '../../dataplane/bpf/flow/state.ts'

const states = StringEnum(['new', 'active', 'closed'] satisfies typeof FLOW_STATES, {
  description:
    'new: one end has sent; active: both have, TCP is established; closed: ended or silent, for another minute',
})

export const Flow = Type.Object({
  id: Type.String(),
  src_ip: Type.String({ description: 'the end that began' }),
  dst_ip: Type.String(),
  src_port: Type.Integer({ description: '0 for protocols without ports' }),
  dst_port: Type.Integer(),
  protocol: Type.String({ description: 'name in lower case, else the number' }),
  bytes_in: Type.Integer({ description: 'towards the workload, on the wire' }),
  bytes_out: Type.Integer(),
  packets_in: Type.Integer(),
  packets_out: Type.Integer(),
  start_time: Timestamp,
  last_seen: Timestamp,
  state: states,
})
export const FlowList = Type.Object({ flows: Type.Array(Flow), count: Type.Integer() })

const filter = {
  state: Type.Optional(states),
  ip: Type.Optional(AddressText),
  protocol: Type.Optional(
    Type.String({ title: 'name or number of a protocol', pattern: '^[a-z0-9-]{1,16}$', description: 'name or number' }),
  ),
  port: Type.Optional(
    Type.String({ title: 'the number of a port', pattern: '^[0-9]{1,5}$', description: 'of either end' }),
  ),
  limit: Type.Optional(
    Type.String({
      title: 'a whole number from 1 to 9999999',
      pattern: '^[1-9][0-9]{0,6}$',
      description: 'at most so many; default: all',
    }),
  ),
}
export const FlowQuery = Type.Object(filter)
export const ExportQuery = Type.Object({ ...filter, format: Type.Optional(StringEnum(['json', 'csv'])) })

const Counts = Type.Record(Type.String(), Type.Integer())
export const Stats = Type.Object({
  total_flows: Type.Integer(),
  active_flows: Type.Integer(),
  total_bytes: Type.Integer(),
  total_packets: Type.Integer(),
  per_protocol: Counts,
  per_state: Counts,
  top_talkers: Type.Array(
    Type.Object({ ip: Type.String(), packets: Type.Integer(), bytes: Type.Integer(), flows: Type.Integer() }),
  ),
})
export const OneStats = Type.Object({ stats: Stats })

const Time = Type.Optional(
  Type.String({
    title: 'a time such as 2030-01-31T12:00:00Z (RFC 3339)',
    pattern: '^[ -~]{0,40}$',
    description: 'RFC 3339',
  }),
)
export const WindowQuery = Type.Object({ start: Time, end: Time })
export const BillingQuery = Type.Object({
  start: Time,
  end: Time,
  rate: Type.Optional(
    Type.String({
      title: 'an amount such as 0.5',
      pattern: '^[ -~]{0,32}$',
      description: 'USD for each Mbps; default 0',
    }),
  ),
})

const period = { period_start: Timestamp, period_end: Timestamp }
export const Summary = Type.Object({
  total_bandwidth_gb: Type.Number({ description: 'total_bytes / 10⁹' }),
  total_bytes: Type.Integer(),
  total_packets: Type.Integer(),
  total_vms: Type.Integer({ description: 'MACs with traffic' }),
  active_ips: Type.Integer({ description: 'IPv4 addresses that MACs have sent from' }),
  ...period,
})
export const Billing = Type.Object({
  period: Type.String({ description: 'start and end joined by a slash' }),
  total_usd: Type.Number(),
  items: Type.Array(
    Type.Object({
      mac: Type.String(),
      bytes_total: Type.Integer(),
      gb: Type.Number(),
      p95_mbps: Type.Number({ description: 'the larger one of both directions' }),
      cost_usd: Type.Number(),
    }),
  ),
})
export const Percentile = Type.Object({ in_mbps: Type.Number(), out_mbps: Type.Number(), ...period })
export const OneSummary = Type.Object({ summary: Summary })
export const OneBilling = Type.Object({ billing: Billing })
export const OnePercentile = Type.Object({ percentile_95th: Percentile })

export type FlowQuery = Static<typeof FlowQuery>
export type Flow = Static<typeof Flow>
export type Stats = Static<typeof Stats>
export type Summary = Static<typeof Summary>
export type Billing = Static<typeof Billing>
export type Percentile = Static<typeof Percentile>
