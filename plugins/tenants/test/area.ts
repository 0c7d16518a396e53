/** Tenants over a plane in memory, with the areas that keep something for them. */
import type { Rule } from '../../../core/area.ts'
import { system } from '../../../core/state/events.ts'
import { type Answer, type BuildAgentOptions, type BuiltAgent, buildAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { attachNic, detachNics, type Nic, type NicInput } from '../../networks/offers.ts'
import type { Key, Quota, Tenant } from '../schemas.ts'

export const P = '/api/v1'
export const AREAS = ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants']

export interface Tenants extends BuiltAgent {
  /** Moved by the test alone; the licence begins when it stands at its start. */
  clock: { ms: number }
  /** Calls; throws unless 2xx. */
  ok(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>
  add(name?: string): Promise<Tenant>
  mint(tenant: Tenant, fields?: object): Promise<{ key: Key; secret: string }>
  /** Calls with a key. */
  as(secret: string, method: string, path: string, body?: unknown): Promise<Answer>
  quota(tenant: Tenant, limits?: object): Promise<Quota>
  network(tenant: Tenant | undefined, fields?: object): Promise<{ id: string; name: string }>
  /** What the registry of machines does for one. */
  attach(machine: string, nic: NicInput): Promise<Nic>
  detach(machine: string): Promise<Nic[]>
  /** Events since the last question. */
  events(): { type: string; area: string; resource: string; data: unknown; actor: unknown }[]
}

const UNLIMITED = { api_rate_limit: '10000000', api_rate_burst: '1000000', api_auth_fail_limit: '100000' }

export async function tenantsArea(t: Scope, options: BuildAgentOptions = {}): Promise<Tenants> {
  const clock = { ms: Date.parse('2030-01-01T00:00:00Z') }
  const config = { ...UNLIMITED, uplink: 'away0', ...options.config }
  const built = await buildAgent(t, { only: AREAS, now: () => new Date(clock.ms), ...options, config })
  const { agent, call } = built
  const seen = { id: agent.outbox.bounds().latest }
  const names = { next: 1 }
  const ok: Tenants['ok'] = async (method, path, body) => {
    const answer = await call(method, `${P}${path}`, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const mutate = async <T>(rule: Rule<T>): Promise<T> =>
    (await agent.pipeline.mutate('networks', system('test'), rule)).result
  return {
    ...built,
    clock,
    ok,
    add: async (name = `t${names.next++}`) => (await ok('POST', '/tenant', { name })).tenant as Tenant,
    mint: async ({ id }, fields) =>
      (await ok('POST', `/tenant/${id}/keys`, { label: 'k', ...fields })) as { key: Key; secret: string },
    as: (secret, method, path, body) => call(method, `${P}${path}`, body, { authorization: `Bearer ${secret}` }),
    async quota({ id }, limits) {
      const answer = limits ? await ok('PUT', `/tenant/${id}/quota`, limits) : await ok('GET', `/tenant/${id}/quota`)
      return answer.quota as Quota
    },
    async network(tenant, fields = {}) {
      const body = { name: `n${names.next++}`, cidr: '10.0.0.0/24', ...(tenant && { tenant_id: tenant.id }), ...fields }
      return (await ok('POST', '/networks', body)).network as { id: string; name: string }
    },
    attach: (machine, nic) => mutate((tx) => attachNic(tx, machine, nic, new Date(clock.ms).toISOString())),
    detach: (machine) => mutate((tx) => detachNics(tx, machine)),
    events() {
      const fresh = agent.outbox.after(seen.id, 10_000)
      seen.id = fresh.at(-1)?.id ?? seen.id
      return fresh.map(({ type, area, resource, data, actor }) => ({ type, area, resource, data, actor }))
    },
  }
}

/** Status and message of a refusal. */
export const refusal = ({ status, body }: Answer) => [status, body.error]

/** The evaluation licence runs out after 30 days, and freezes 14 days later. */
export function freeze({ clock }: Pick<Tenants, 'clock'>): void {
  clock.ms += 60 * 86_400_000
}
