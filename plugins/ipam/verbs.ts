/** Commands of IPAM: the calls of REST, one by one. */
import { columns, path, type Verb, type VerbArgument, type VerbOption } from '../../core/cli/verb.ts'
import type { Allocated, Allocation, Pool } from './schemas.ts'

const POOL: VerbArgument = { name: 'pool', summary: 'number of the pool' }
const TENANT: VerbOption = { flags: '--tenant-id <id>', summary: 'only those of this tenant' }
const query = ({ 'tenant-id': tenant }: Readonly<Record<string, unknown>>) =>
  tenant === undefined ? '' : path`?tenant_id=${String(tenant)}`

export const verbs: readonly Verb[] = [
  {
    path: 'ipam pools list',
    summary: 'list the address pools',
    example: 'ipam pools list',
    options: [TENANT],
    async run({ call, options, print }) {
      const answer = await call<{ pools: Pool[] }>('GET', `/api/v1/ipam/pools${query(options)}`)
      const rows = answer.pools.map((pool) => [
        pool.id,
        pool.name,
        pool.subnet,
        pool.gateway,
        `${pool.range_start} to ${pool.range_end}`,
        pool.tenant_id,
      ])
      const head = ['ID', 'NAME', 'SUBNET', 'GATEWAY', 'RANGE', 'TENANT']
      print(answer, rows.length === 0 ? 'no pools' : columns([head, ...rows]))
    },
  },
  {
    path: 'ipam pools create',
    summary: 'add an address pool',
    example: 'ipam pools create office 10.7.0.0/24 --gateway 10.7.0.1',
    arguments: [
      { name: 'name', summary: 'what it is called' },
      { name: 'subnet', summary: 'CIDR, IPv4 or IPv6' },
    ],
    options: [
      { flags: '--gateway <address>', summary: 'address that is never handed out' },
      { flags: '--range-start <address>', summary: 'default: the first host address' },
      { flags: '--range-end <address>', summary: 'default: the last host address' },
      { flags: '--tenant-id <id>', summary: 'whose it is' },
    ],
    async run({ call, argument, options, print }) {
      const fields = Object.entries(options).map(([name, value]) => [name.replaceAll('-', '_'), value])
      const body = { name: argument('name'), subnet: argument('subnet'), ...Object.fromEntries(fields) }
      const answer = await call<{ pool: Pool }>('POST', '/api/v1/ipam/pools', body)
      print(answer, `pool ${answer.pool.id} created: ${answer.pool.range_start} to ${answer.pool.range_end}`)
    },
  },
  {
    path: 'ipam pools delete',
    summary: 'delete a pool and everything allocated in it',
    example: 'ipam pools delete 3',
    arguments: [POOL],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/ipam/pools/${argument('pool')}`)
      print(answer, `pool ${answer.id} deleted`)
    },
  },
  {
    path: 'ipam allocations',
    summary: 'list the addresses that are allocated',
    example: 'ipam allocations',
    options: [TENANT],
    async run({ call, options, print }) {
      const answer = await call<{ allocations: Allocation[] }>('GET', `/api/v1/ipam/allocations${query(options)}`)
      const rows = answer.allocations.map(({ id, pool_id, ip, hostname }) => [id, pool_id, ip, hostname])
      print(answer, rows.length === 0 ? 'no allocations' : columns([['ID', 'POOL', 'IP', 'HOSTNAME'], ...rows]))
    },
  },
  {
    path: 'ipam allocate',
    summary: 'take the lowest free address of a pool',
    example: 'ipam allocate 3 --hostname printer.lab',
    arguments: [POOL],
    options: [{ flags: '--hostname <name>', summary: 'who gets it' }],
    async run({ call, argument, options, print }) {
      const body = { pool_id: poolNumber(argument('pool')), ...options }
      const answer = await call<Allocated>('POST', '/api/v1/ipam/allocate', body)
      print(answer, answer.ip)
    },
  },
  {
    path: 'ipam release',
    summary: 'give an allocated address back',
    example: 'ipam release 3 10.7.0.9',
    arguments: [POOL, { name: 'ip', summary: 'the address' }],
    async run({ call, argument, print }) {
      const body = { pool_id: poolNumber(argument('pool')), ip: argument('ip') }
      const answer = await call<{ status: string }>('POST', '/api/v1/ipam/release', body)
      print(answer, `${body.ip} ${answer.status}`)
    },
  },
]

/** Text that is no number goes as it is: the agent says what is wrong with it. */
const poolNumber = (text: string): number | string => (/^[0-9]{1,15}$/.test(text) ? Number(text) : text)
