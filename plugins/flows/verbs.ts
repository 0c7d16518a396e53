/** Commands of flows and accounting. */
import { bitRate, columns, type Pane, type Verb, type VerbContext, type VerbOption } from '../../core/cli/verb.ts'
import type { Billing, Flow, Percentile, Stats, Summary } from './schemas.ts'

const FILTERS: readonly VerbOption[] = [
  { flags: '--state <state>', summary: 'new, active or closed' },
  { flags: '--ip <address>', summary: 'of either end' },
  { flags: '--protocol <name>', summary: 'name such as tcp, or number' },
  { flags: '--port <port>', summary: 'of either end', integer: true },
  { flags: '--limit <n>', summary: 'at most so many', integer: true },
]
const WINDOW: readonly VerbOption[] = [
  { flags: '--start <time>', summary: 'RFC 3339; default: start of the month in UTC' },
  { flags: '--end <time>', summary: 'RFC 3339; default: now' },
]

/** `path` with those options as its query that were given. */
function asked({ options }: VerbContext, path: string, names: readonly string[]): string {
  const given = names.filter((name) => options[name] !== undefined)
  const query = given.map((name) => `${name}=${encodeURIComponent(String(options[name]))}`)
  return query.length === 0 ? path : `${path}?${query.join('&')}`
}
const FILTER_NAMES = ['state', 'ip', 'protocol', 'port', 'limit']
const end = (ip: string, port: number) => (port === 0 ? ip : ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`)

export const verbs: readonly Verb[] = [
  {
    path: 'flows list',
    summary: 'list the flows over the workload bridge',
    example: 'flows list --state active --limit 50',
    options: FILTERS,
    async run(context) {
      const answer = await context.call<{ flows: Flow[] }>('GET', asked(context, '/api/v1/flows', FILTER_NAMES))
      const rows = answer.flows.map((flow) => [
        flow.protocol,
        end(flow.src_ip, flow.src_port),
        end(flow.dst_ip, flow.dst_port),
        flow.state,
        flow.bytes_in,
        flow.bytes_out,
        flow.last_seen,
      ])
      const head = ['PROTOCOL', 'FROM', 'TO', 'STATE', 'BYTES IN', 'BYTES OUT', 'LAST SEEN']
      context.print(answer, rows.length === 0 ? 'no flows' : columns([head, ...rows]))
    },
  },
  {
    path: 'flows stats',
    summary: 'show sums over all flows and who talks most',
    example: 'flows stats',
    async run({ call, print }) {
      const answer = await call<{ stats: Stats }>('GET', '/api/v1/flows/stats')
      const { total_flows, active_flows, total_bytes, total_packets, top_talkers } = answer.stats
      const rows = top_talkers.map(({ ip, packets, bytes, flows }) => [ip, packets, bytes, flows])
      const sums = columns([
        ['FLOWS', 'ACTIVE', 'BYTES', 'PACKETS'],
        [total_flows, active_flows, total_bytes, total_packets],
      ])
      print(
        answer,
        rows.length === 0 ? sums : `${sums}\n\n${columns([['TALKER', 'PACKETS', 'BYTES', 'FLOWS'], ...rows])}`,
      )
    },
  },
  {
    path: 'flows export',
    summary: 'print the flows as JSON or CSV',
    example: 'flows export --format csv',
    options: [{ flags: '--format <format>', summary: 'json (default) or csv' }, ...FILTERS],
    async run(context) {
      const path = asked(context, '/api/v1/flows/export', [...FILTER_NAMES, 'format'])
      const answer = await context.call('GET', path)
      context.print(answer, typeof answer === 'string' ? answer.trimEnd() : JSON.stringify(answer))
    },
  },
  {
    path: 'accounting summary',
    summary: 'show the traffic of the node in a window',
    example: 'accounting summary --start 2030-01-01T00:00:00Z',
    options: WINDOW,
    async run(context) {
      const path = asked(context, '/api/v1/accounting/summary', ['start', 'end'])
      const answer = await context.call<{ summary: Summary }>('GET', path)
      const { total_bytes, total_bandwidth_gb, total_packets, total_vms, active_ips, ...period } = answer.summary
      const head = ['FROM', 'TO', 'BYTES', 'GB', 'PACKETS', 'VMS', 'IPS']
      const row = [period.period_start, period.period_end, total_bytes, total_bandwidth_gb, total_packets]
      context.print(answer, columns([head, [...row, total_vms, active_ips]]))
    },
  },
  {
    path: 'accounting billing',
    summary: 'show the traffic and the cost of each MAC in a window',
    example: 'accounting billing --rate 0.5',
    options: [...WINDOW, { flags: '--rate <usd>', summary: 'USD for each Mbps of the 95th percentile; default 0' }],
    async run(context) {
      const path = asked(context, '/api/v1/accounting/billing', ['start', 'end', 'rate'])
      const answer = await context.call<{ billing: Billing }>('GET', path)
      const { period, total_usd, items } = answer.billing
      const rows = items.map((item) => [item.mac, item.bytes_total, item.gb, item.p95_mbps, item.cost_usd])
      const table = columns([['MAC', 'BYTES', 'GB', '95TH (Mbps)', 'USD'], ...rows])
      context.print(answer, `${rows.length === 0 ? 'no traffic' : table}\n${period}: ${total_usd} USD`)
    },
  },
  {
    path: 'accounting percentile',
    summary: 'show the 95th percentile of the node in a window',
    example: 'accounting percentile',
    options: WINDOW,
    async run(context) {
      const path = asked(context, '/api/v1/accounting/95th', ['start', 'end'])
      const answer = await context.call<{ percentile_95th: Percentile }>('GET', path)
      const { in_mbps, out_mbps, period_start, period_end } = answer.percentile_95th
      const head = ['FROM', 'TO', 'IN (Mbps)', 'OUT (Mbps)']
      context.print(answer, columns([head, [period_start, period_end, in_mbps, out_mbps]]))
    },
  },
]

/** So many are read at a time, in the order in which the kernel keeps them. */
const LOOKED_AT = 500

export const panes: readonly Pane[] = [
  {
    title: 'Flows',
    order: 10,
    async read({ call, rate }) {
      const { flows } = await call<{ flows: Flow[] }>('GET', `/api/v1/flows?state=active&limit=${LOOKED_AT}`)
      const measured = flows.map((flow) => ({
        ...flow,
        to: rate(`${flow.id} in`, flow.bytes_in),
        from: rate(`${flow.id} out`, flow.bytes_out),
      }))
      const weight = ({ to, from, bytes_in, bytes_out }: (typeof measured)[number]) =>
        to === undefined || from === undefined ? (bytes_in + bytes_out) / 1e12 : to + from
      measured.sort((a, b) => weight(b) - weight(a))
      return {
        head: ['PROTOCOL', 'FROM', 'TO', 'IN', 'OUT', 'BYTES'],
        rows: measured.map((it) => [
          it.protocol,
          end(it.src_ip, it.src_port),
          end(it.dst_ip, it.dst_port),
          bitRate(it.to),
          bitRate(it.from),
          it.bytes_in + it.bytes_out,
        ]),
        note: flows.length < LOOKED_AT ? `${flows.length} active` : `${LOOKED_AT} of those that are active`,
      }
    },
  },
]
