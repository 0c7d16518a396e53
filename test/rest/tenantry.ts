/** Three tenants and everybody's credentials, on an agent with all its areas. */
import { mintOperatorKey, revokeOperatorKey } from '../../core/operator-keys.ts'
import { system } from '../../core/state/events.ts'
import { type BuildAgentOptions, type BuiltAgent, buildAgent, TOKEN } from '../build.ts'
import type { Scope } from '../netns.ts'
import { UNHURRIED } from './ask.ts'
import { snapshot } from './snapshot.ts'

/** What a tenant's key may call below its own tenant, `{}` for each parameter: rule 4 of the authentication, and D106. */
export const TENANT_MAY: readonly string[] = [
  'GET /tenant/{}',
  'GET /tenant/{}/quota',
  'GET /tenant/{}/keys',
  'POST /tenant/{}/keys',
  'DELETE /tenant/{}/keys/{}',
  'GET /tenant/{}/networks',
  'GET /tenant/{}/addresses',
  'GET /tenant/{}/usage',
  'GET /billing/tenants/{}',
]
/** The same of machines, which an agent need not have. */
export const TENANT_MAY_MACHINES: readonly string[] = [
  'GET /tenant/{}/machines',
  'GET /tenant/{}/machines/{}',
  ...['power', 'password', 'console'].flatMap((action) =>
    ['GET', 'POST', 'PUT'].map((method) => `${method} /tenant/{}/machines/{}/${action}`),
  ),
]

/** Stands in what only the other tenant has, and in nothing that anybody asks for. */
export const CANARY = 'canary-2b9f'

export interface Tenantry extends BuiltAgent {
  /** Ids of the tenants. */
  own: string
  other: string
  suspended: string
  /** Bearer tokens. */
  key: Record<'own' | 'other' | 'suspended' | 'revoked' | 'operator' | 'revokedOperator' | 'node', string>
}

export async function tenantry(t: Scope, options: BuildAgentOptions = {}): Promise<Tenantry> {
  const built = await buildAgent(t, { ...options, config: { ...UNHURRIED, ...options.config } })
  const tenants = await threeTenants(built)
  const { agent } = built
  const mint = async (label: string) =>
    (await agent.pipeline.mutate('core', system('test'), (tx) => mintOperatorKey(tx, label, agent.now()))).result
  const [operator, revoked] = [await mint('desk'), await mint('gone')]
  await agent.pipeline.mutate('core', system('test'), (tx) => revokeOperatorKey(tx, revoked.id))
  agent.operatorKeys.reload()
  return {
    ...built,
    ...tenants,
    key: { ...tenants.key, operator: operator.key, revokedOperator: revoked.key, node: TOKEN },
  }
}

interface Tenants {
  own: string
  other: string
  suspended: string
  key: Record<'own' | 'other' | 'suspended' | 'revoked', string>
}

async function threeTenants({ call }: BuiltAgent): Promise<Tenants> {
  const change = async (method: string, path: string, body?: object) => {
    const answer = await call(method, `/api/v1${path}`, body)
    if (answer.status > 299) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body as { tenant: { id: string }; key: { id: string }; secret: string }
  }
  const tenant = async (name: string) => (await change('POST', '/tenant', { name })).tenant.id
  const key = async (id: string, label: string) => await change('POST', `/tenant/${id}/keys`, { label })
  const [own, other, suspended] = [await tenant('own'), await tenant(CANARY), await tenant('late')]
  await change('POST', '/networks', { name: `${CANARY}-net`, cidr: '10.99.0.0/24', tenant_id: other })
  const revoked = await key(own, 'revoked')
  await change('DELETE', `/tenant/${own}/keys/${revoked.key.id}`)
  const keys = {
    own: (await key(own, 'own')).secret,
    other: (await key(other, CANARY)).secret,
    suspended: (await key(suspended, 'late')).secret,
    revoked: revoked.secret,
  }
  await change('PUT', `/tenant/${suspended}`, { status: 'suspended' })
  return { own, other, suspended, key: keys }
}

/** Noted by those that only read: that a key was used, and when traffic was counted last. */
const NOTED = new Set(['last_used_at', 'flows_readings'])

/** What calls that are refused or that only read leave as it was. */
export const shown = (built: Pick<BuiltAgent, 'agent' | 'plane'>): string =>
  JSON.stringify(snapshot(built), (name, value) => (NOTED.has(name) ? undefined : value))
