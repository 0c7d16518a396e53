/** Billing over a plane in memory, with the areas it needs. */
import { system } from '../../../core/state/events.ts'
import type { TenantNet } from '../../../dataplane/bpf/port/entries.ts'
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { attachNic, detachNics, type NicInput } from '../../networks/offers.ts'
import type { Billing } from '../schemas.ts'

export const P = '/api/v1'
export const AREAS = ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants', 'flows', 'billing']
export const NOW = '2030-01-01T00:00:00.000Z'

export interface BillingArea extends BuiltAgent {
  /** Adds a tenant and returns its id. */
  tenant(name: string): Promise<string>
  /** Adds a network and returns its id. */
  network(cidr: string, tenant?: string): Promise<string>
  /** Adds a range of routed addresses that is reserved to a tenant. */
  range(cidr: string, tenant: string): Promise<void>
  attach(machine: string, wanted: NicInput): Promise<void>
  detach(machine: string): Promise<void>
  /** POST of an action; its answer whatever it is. */
  act(tenant: string, action: string, body?: unknown): ReturnType<BuiltAgent['call']>
  show(tenant: string): Promise<Billing>
  /** Events since the last question. */
  events(): { type: string; resource: string; data: unknown }[]
  /** Entries of billing in the plane, by net. */
  held(): [net: number, rate: number, blocked: boolean, bucket: number][]
  /** Asserts by throwing that `work` changes neither a row nor the plane, and resolves with its answer. */
  unchanged<T>(work: () => Promise<T>): Promise<T>
}

const UNLIMITED = { api_rate_limit: '10000000', api_rate_burst: '1000000' }

export async function billing(t: Scope, options: BuildAgentOptions = {}): Promise<BillingArea> {
  const built = await buildArea(t, 'billing', { only: AREAS, now: () => new Date(NOW), config: UNLIMITED, ...options })
  const { agent, call, plane } = built
  const seen = { id: agent.outbox.bounds().latest }
  const certain = async (method: string, path: string, body?: unknown) => {
    const answer = await call(method, `${P}${path}`, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  return {
    ...built,
    tenant: async (name) => ((await certain('POST', '/tenant', { name })).tenant as { id: string }).id,
    async network(cidr, tenant) {
      const body = { name: cidr.replace('/', '-'), cidr, ...(tenant && { tenant_id: tenant }) }
      return ((await certain('POST', '/networks', body)).network as { id: string }).id
    },
    range: async (cidr, tenant) => void (await certain('POST', '/routed-addresses', { cidr, tenant_id: tenant })),
    attach: async (machine, wanted) =>
      void (await agent.pipeline.mutate('networks', system('test'), (tx) => attachNic(tx, machine, wanted, NOW))),
    detach: async (machine) =>
      void (await agent.pipeline.mutate('networks', system('test'), (tx) => detachNics(tx, machine))),
    act: (tenant, action, body) => call('POST', `${P}/billing/tenants/${tenant}/${action}`, body),
    show: async (tenant) => (await certain('GET', `/billing/tenants/${tenant}`)).billing as Billing,
    events() {
      const fresh = agent.outbox.after(seen.id, 10_000)
      seen.id = fresh.at(-1)?.id ?? seen.id
      return fresh.map(({ type, resource, data }) => ({ type, resource, data }))
    },
    held: () =>
      [...plane.entries.values()]
        .filter((entry): entry is TenantNet => entry.kind === 'tenant_net')
        .map(({ net, rate, blocked, bucket }) => [net, rate, blocked, bucket] as [number, number, boolean, number])
        .sort(([a], [b]) => a - b),
    async unchanged(work) {
      const before = JSON.stringify(snapshot(built))
      const result = await work()
      if (JSON.stringify(snapshot(built)) !== before) throw new Error(`something changed, although ${String(work)}`)
      return result
    },
  }
}
