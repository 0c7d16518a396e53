/** Commands of billing. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Billing } from './schemas.ts'

const TENANT = { name: 'tenant', summary: 'id of the tenant' }
type Answer = { billing: Billing }

export const verbs: readonly Verb[] = [
  {
    path: 'billing show',
    summary: 'show the state and the traffic of a tenant',
    example: 'billing show ten-3f9c0a12be47',
    arguments: [TENANT],
    async run({ call, argument, print }) {
      const answer = await call<Answer>('GET', path`/api/v1/billing/tenants/${argument('tenant')}`)
      print(answer, described(answer.billing))
    },
  },
  {
    path: 'billing suspend',
    summary: 'suspend a tenant: its keys only read, and nothing new is attached',
    example: 'billing suspend ten-3f9c0a12be47 --block-traffic',
    arguments: [TENANT],
    options: [{ flags: '--block-traffic', summary: 'let no traffic of its networks pass until it is resumed' }],
    async run({ call, argument, options, print }) {
      const body = options['block-traffic'] ? { block_traffic: true } : {}
      const answer = await call<Answer>('POST', path`/api/v1/billing/tenants/${argument('tenant')}/suspend`, body)
      print(answer, described(answer.billing))
    },
  },
  {
    path: 'billing resume',
    summary: 'end the suspension of a tenant and the block of its traffic',
    example: 'billing resume ten-3f9c0a12be47',
    arguments: [TENANT],
    async run({ call, argument, print }) {
      const answer = await call<Answer>('POST', path`/api/v1/billing/tenants/${argument('tenant')}/resume`)
      print(answer, described(answer.billing))
    },
  },
  {
    path: 'billing limit',
    summary: 'limit what the workloads of a tenant send in all, and what they get in all',
    example: 'billing limit ten-3f9c0a12be47 --rate-bps 100000000',
    arguments: [TENANT],
    options: [{ flags: '--rate-bps <rate>', summary: 'bits a second', integer: true, required: true }],
    async run({ call, argument, options, print }) {
      const body = { rate_bps: options['rate-bps'] }
      const answer = await call<Answer>('POST', path`/api/v1/billing/tenants/${argument('tenant')}/limit`, body)
      print(answer, described(answer.billing))
    },
  },
  {
    path: 'billing unlimit',
    summary: 'end the limit of a tenant',
    example: 'billing unlimit ten-3f9c0a12be47',
    arguments: [TENANT],
    async run({ call, argument, print }) {
      const answer = await call<Answer>('POST', path`/api/v1/billing/tenants/${argument('tenant')}/unlimit`)
      print(answer, described(answer.billing))
    },
  },
]

function described({ tenant_id, state, limit_bps, block_traffic, suspended_at, period, bytes_total }: Billing): string {
  return columns([
    ['TENANT', 'STATE', 'SINCE', 'LIMIT (bit/s)', 'TRAFFIC', 'BYTES', 'PERIOD'],
    [tenant_id, state, suspended_at, limit_bps || 'none', block_traffic ? 'blocked' : 'passes', bytes_total, period],
  ])
}
