/** Commands of bandwidth. */
import { bitRate, columns, type Pane, path, type Verb } from '../../core/cli/verb.ts'
import type { Limit, Pool, Quota } from './schemas.ts'

const MAC = { name: 'mac', summary: 'MAC address' }
const rates = ({ id, target_mac, rate_bps, guaranteed_bps, burst_bytes, direction, pool_id }: Limit) => [
  id,
  target_mac,
  rate_bps || 'pool',
  guaranteed_bps || '',
  burst_bytes,
  direction,
  pool_id,
]
const used = ({ id, mac, monthly_limit_bytes, used_bytes, status, action, enforced, current_period }: Quota) => [
  id,
  mac,
  monthly_limit_bytes,
  used_bytes,
  status,
  enforced ? action : `${action} (advisory)`,
  current_period,
]
const LIMIT_HEAD = ['ID', 'MAC', 'RATE (bit/s)', 'GUARANTEED', 'BURST (bytes)', 'DIRECTION', 'POOL']
const QUOTA_HEAD = ['ID', 'MAC', 'LIMIT (bytes)', 'USED', 'STATUS', 'ACTION', 'MONTH']

export const verbs: readonly Verb[] = [
  {
    path: 'bandwidth list',
    summary: 'list limits and pools',
    example: 'bandwidth list',
    async run({ call, print }) {
      const answer = await call<{ limits: Limit[]; pools: Pool[] }>('GET', '/api/v1/bandwidth')
      const { limits, pools } = answer
      const shown = pools.map((it) => [it.ID, it.Name, it.TotalBps, it.AllocatedBps, it.Members.join(' ')])
      const parts = [
        limits.length === 0 ? 'no limits' : columns([LIMIT_HEAD, ...limits.map(rates)]),
        pools.length === 0
          ? 'no pools'
          : columns([['POOL', 'NAME', 'TOTAL (bit/s)', 'ALLOCATED', 'MEMBERS'], ...shown]),
      ]
      print(answer, parts.join('\n\n'))
    },
  },
  {
    path: 'bandwidth limit',
    summary: 'limit what a MAC sends and gets, or change its limit',
    example: 'bandwidth limit web1 02:00:00:00:00:01 --rate-bps 100000000 --direction both',
    arguments: [{ name: 'id', summary: 'name of the limit' }, MAC],
    options: [
      { flags: '--rate-bps <rate>', summary: 'bits a second; may be left out in a pool', integer: true },
      { flags: '--burst-bytes <bytes>', summary: 'bytes at once after a silence', integer: true },
      { flags: '--guaranteed-bps <rate>', summary: 'of its pool, what is there for this MAC alone', integer: true },
      { flags: '--direction <way>', summary: 'up (what it sends), down or both' },
      { flags: '--pool-id <pool>', summary: 'pool that it shares' },
      { flags: '--interface-id <ifindex>', summary: 'only at this port', integer: true },
    ],
    async run({ call, argument, options, print }) {
      const named = Object.entries(options).map(([name, value]) => [name.replaceAll('-', '_'), value])
      const body = { id: argument('id'), target_mac: argument('mac'), ...Object.fromEntries(named) }
      const answer = await call<{ status: string; limit: Limit }>('POST', '/api/v1/bandwidth', body)
      print(answer, columns([LIMIT_HEAD, rates(answer.limit)]))
    },
  },
  {
    path: 'bandwidth unlimit',
    summary: 'delete a limit: its MAC becomes unshaped',
    example: 'bandwidth unlimit web1',
    arguments: [{ name: 'id', summary: 'name of the limit' }],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/bandwidth/${argument('id')}`)
      print(answer, `limit ${answer.id} deleted`)
    },
  },
  {
    path: 'bandwidth pool set',
    summary: 'make a pool that several MACs share, or change it',
    example: 'bandwidth pool set shop --total-bps 1000000000',
    arguments: [{ name: 'id', summary: 'name of the pool' }],
    options: [
      { flags: '--total-bps <rate>', summary: 'bits a second, each way', integer: true, required: true },
      { flags: '--name <text>', summary: 'what people call it' },
    ],
    async run({ call, argument, options, print }) {
      const { name } = options
      const body = { id: argument('id'), total_bps: options['total-bps'], ...(name !== undefined && { name }) }
      const answer = await call<{ status: string; id: string }>('POST', '/api/v1/bandwidth/pools', body)
      print(answer, `pool ${answer.id} ${answer.status}`)
    },
  },
  {
    path: 'bandwidth pool delete',
    summary: 'delete a pool: its members become unshaped',
    example: 'bandwidth pool delete shop',
    arguments: [{ name: 'id', summary: 'name of the pool' }],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/bandwidth/pools/${argument('id')}`)
      print(answer, `pool ${answer.id} deleted`)
    },
  },
  {
    path: 'bandwidth pool add',
    summary: 'add a MAC to a pool, or change its ceiling there',
    example: 'bandwidth pool add shop 02:00:00:00:00:01 --rate-bps 100000000',
    arguments: [{ name: 'id', summary: 'name of the pool' }, MAC],
    options: [{ flags: '--rate-bps <rate>', summary: 'ceiling of the member; default the total', integer: true }],
    async run({ call, argument, options, print }) {
      const rate = options['rate-bps']
      const body = {
        pool_id: argument('id'),
        member_mac: argument('mac'),
        ...(rate !== undefined && { rate_bps: rate }),
      }
      const answer = await call<{ pool_id: string; member_mac: string; status: string }>(
        'POST',
        '/api/v1/bandwidth/pools/members',
        body,
      )
      print(answer, `${answer.member_mac} ${answer.status}: pool ${answer.pool_id}`)
    },
  },
  {
    path: 'bandwidth pool remove',
    summary: 'take a MAC out of a pool: it becomes unshaped',
    example: 'bandwidth pool remove shop 02:00:00:00:00:01',
    arguments: [{ name: 'id', summary: 'name of the pool' }, MAC],
    async run({ call, argument, print }) {
      const answer = await call<{ pool_id: string; member_mac: string }>(
        'DELETE',
        path`/api/v1/bandwidth/pools/${argument('id')}/members/${argument('mac')}`,
      )
      print(answer, `${answer.member_mac} removed from pool ${answer.pool_id}`)
    },
  },
  {
    path: 'bandwidth quota list',
    summary: 'list quotas and what was used of them',
    example: 'bandwidth quota list',
    async run({ call, print }) {
      const answer = await call<{ quotas: Quota[] }>('GET', '/api/v1/bandwidth/quotas')
      const rows = answer.quotas.map(used)
      print(answer, rows.length === 0 ? 'no quotas' : columns([QUOTA_HEAD, ...rows]))
    },
  },
  {
    path: 'bandwidth quota set',
    summary: 'count what a MAC sends and gets in a month, and what happens above a limit',
    example: 'bandwidth quota set web1 02:00:00:00:00:01 --bytes 1000000000000 --action block --enforced',
    arguments: [{ name: 'id', summary: 'name of the quota' }, MAC],
    options: [
      { flags: '--bytes <bytes>', summary: 'bytes a month, both ways together', integer: true, required: true },
      { flags: '--action <action>', summary: 'notify (default), throttle or block' },
      { flags: '--enforced', summary: 'the action is carried out; without, it is only counted and told' },
    ],
    async run({ call, argument, options, print }) {
      const body = {
        id: argument('id'),
        mac: argument('mac'),
        monthly_limit_bytes: options.bytes,
        ...(options.action !== undefined && { action: options.action }),
        ...(options.enforced && { enforced: true }),
      }
      const answer = await call<{ quota: Quota }>('POST', '/api/v1/bandwidth/quotas', body)
      print(answer, columns([QUOTA_HEAD, used(answer.quota)]))
    },
  },
  {
    path: 'bandwidth quota delete',
    summary: 'delete the quota of a MAC',
    example: 'bandwidth quota delete 02:00:00:00:00:01',
    arguments: [MAC],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/bandwidth/quotas/${argument('mac')}`)
      print(answer, `quota ${answer.id} deleted`)
    },
  },
]

export const panes: readonly Pane[] = [
  {
    title: 'Limits',
    order: 30,
    async read({ call, rate }) {
      const { limits } = await call<{ limits: Limit[] }>('GET', '/api/v1/bandwidth')
      const { quotas } = await call<{ quotas: Quota[] }>('GET', '/api/v1/bandwidth/quotas')
      const shaped = new Map(limits.map((limit) => [limit.target_mac, limit]))
      const counted = new Map(quotas.map((quota) => [quota.mac, quota]))
      const rows = [...new Set([...counted.keys(), ...shaped.keys()])].map((mac) => {
        const [limit, quota] = [shaped.get(mac), counted.get(mac)]
        const share = quota === undefined ? -1 : quota.used_bytes / quota.monthly_limit_bytes
        // Only what has a quota is counted.
        const now = quota === undefined ? undefined : rate(mac, quota.used_bytes)
        return { mac, limit, quota, share, now }
      })
      rows.sort((a, b) => (b.now ?? 0) - (a.now ?? 0) || b.share - a.share)
      return {
        head: ['MAC', 'LIMIT', 'DIRECTION', 'POOL', 'NOW', 'QUOTA', 'STATUS'],
        rows: rows.map(({ mac, limit, quota, share, now }) => [
          mac,
          limit && (limit.rate_bps === 0 ? 'of the pool' : bitRate(limit.rate_bps / 8)),
          limit?.direction,
          limit?.pool_id,
          bitRate(now),
          quota && `${(share * 100).toFixed(1)} %`,
          quota?.status,
        ]),
        note: `${limits.length} limits, ${quotas.length} quotas`,
      }
    },
  },
]
