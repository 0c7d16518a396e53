/** Commands of tenants, their keys and quotas: the calls of REST, one by one. */
import { columns, path, UsageError, type Verb, type VerbArgument } from '../../core/cli/verb.ts'
import type { Key, KeyCreated, Quota, Tenant } from './schemas.ts'

const TENANT: VerbArgument = { name: 'tenant', summary: 'its id' }
const one = ({ id, name, status, created_at, updated_at }: Tenant) =>
  columns([
    ['id', id],
    ['name', name],
    ['status', status],
    ['created', created_at],
    ['updated', updated_at],
  ])

export const verbs: readonly Verb[] = [
  {
    path: 'tenants list',
    summary: 'list the tenants',
    example: 'tenants list',
    async run({ call, print }) {
      const answer = await call<{ tenants: Tenant[] }>('GET', '/api/v1/tenant')
      const rows = answer.tenants.map(({ id, name, status, created_at }) => [id, name, status, created_at])
      print(answer, rows.length === 0 ? 'no tenants' : columns([['ID', 'NAME', 'STATUS', 'CREATED'], ...rows]))
    },
  },
  {
    path: 'tenants add',
    summary: 'add a tenant',
    example: 'tenants add acme',
    arguments: [{ name: 'name', summary: 'what it is called; no two are called the same' }],
    async run({ call, argument, print }) {
      const answer = await call<{ tenant: Tenant }>('POST', '/api/v1/tenant', { name: argument('name') })
      print(answer, `tenant ${answer.tenant.name} added: ${answer.tenant.id}`)
    },
  },
  {
    path: 'tenants show',
    summary: 'show one tenant',
    example: 'tenants show ten-0f3a5b7c9d1e',
    arguments: [TENANT],
    async run({ call, argument, print }) {
      const answer = await call<{ tenant: Tenant }>('GET', path`/api/v1/tenant/${argument('tenant')}`)
      print(answer, one(answer.tenant))
    },
  },
  {
    path: 'tenants set',
    summary: 'rename a tenant, suspend it, or make it active again',
    example: 'tenants set ten-0f3a5b7c9d1e --status suspended',
    arguments: [TENANT],
    options: [
      { flags: '--name <name>', summary: 'what it shall be called' },
      { flags: '--status <status>', summary: 'active, or suspended: it gets nothing new and its keys only read' },
    ],
    async run({ call, argument, options, print }) {
      if (options.status === 'deleted') throw new UsageError('to delete a tenant, say: tenants delete')
      const answer = await call<{ tenant: Tenant }>('PUT', path`/api/v1/tenant/${argument('tenant')}`, options)
      print(answer, one(answer.tenant))
    },
  },
  {
    path: 'tenants delete',
    summary: 'delete a tenant with its keys, quota, networks, public addresses and pools, in use or not',
    example: 'tenants delete ten-0f3a5b7c9d1e',
    arguments: [TENANT],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/tenant/${argument('tenant')}`)
      print(answer, `tenant ${answer.id} deleted`)
    },
  },
  {
    path: 'tenants quota',
    summary: 'show what a tenant may have and has, or set limits',
    example: 'tenants quota ten-0f3a5b7c9d1e networks=5,endpoints=200',
    arguments: [TENANT, { name: 'limits', summary: 'RESOURCE=N,RESOURCE=N…; 0: unlimited', optional: true }],
    async run({ call, argument, print }) {
      const at = path`/api/v1/tenant/${argument('tenant')}/quota`
      const limits = argument('limits')
      const answer = await (limits === ''
        ? call<{ quota: Quota }>('GET', at)
        : call<{ quota: Quota }>('PUT', at, readLimits(limits)))
      const rows = Object.entries(answer.quota.limits).map(([resource, most]) => [
        resource,
        answer.quota.usage[resource as keyof Quota['usage']],
        most === 0 ? 'unlimited' : most,
      ])
      print(answer, columns([['RESOURCE', 'USED', 'LIMIT'], ...rows]))
    },
  },
  {
    path: 'tenants keys list',
    summary: 'list the keys of a tenant',
    example: 'tenants keys list ten-0f3a5b7c9d1e',
    arguments: [TENANT],
    async run({ call, argument, print }) {
      const answer = await call<{ keys: Key[] }>('GET', path`/api/v1/tenant/${argument('tenant')}/keys`)
      const rows = answer.keys.map((key) => [key.id, key.label, key.created_at, key.last_used_at, key.expires_at])
      const head = ['ID', 'LABEL', 'CREATED', 'LAST USED', 'EXPIRES']
      print(answer, rows.length === 0 ? 'no keys' : columns([head, ...rows]))
    },
  },
  {
    path: 'tenants keys mint',
    summary: 'mint a key for a tenant; it is shown this once',
    example: 'tenants keys mint ten-0f3a5b7c9d1e portal',
    arguments: [TENANT, { name: 'label', summary: 'what the key is for' }],
    options: [{ flags: '--expires <time>', summary: 'RFC 3339; without it the key never expires' }],
    async run({ call, argument, options: { expires }, print, note }) {
      const body = { label: argument('label'), ...(expires !== undefined && { expires_at: expires }) }
      const answer = await call<KeyCreated>('POST', path`/api/v1/tenant/${argument('tenant')}/keys`, body)
      print(answer, answer.secret)
      note(`This is key ${answer.key.id}. It cannot be shown again.`)
    },
  },
  {
    path: 'tenants keys revoke',
    summary: 'revoke a key; the next call with it is refused',
    example: 'tenants keys revoke ten-0f3a5b7c9d1e key-1b2c3d4e5f60',
    arguments: [TENANT, { name: 'key', summary: 'its id' }],
    async run({ call, argument, print }) {
      const at = path`/api/v1/tenant/${argument('tenant')}/keys/${argument('key')}`
      const answer = await call<{ id: string }>('DELETE', at)
      print(answer, `key ${answer.id} revoked`)
    },
  },
]

/** `networks=5,endpoints=200`; whether there is such a resource and limit the agent says. */
function readLimits(text: string): Record<string, number> {
  const pairs = text.split(',').map((pair) => {
    const [, resource, most] = /^([a-z_]+)=(-?[0-9]{1,16})$/.exec(pair) ?? []
    if (resource === undefined) throw new UsageError(`not RESOURCE=N: ${pair}`)
    return [resource, Number(most)]
  })
  return Object.fromEntries(pairs)
}
