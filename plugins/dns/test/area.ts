/** The area over a plane in memory. */
import { type BuildAgentOptions, type BuiltAgent, buildAgent } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'

export const DNS = '/api/v1/dns'

export interface DnsArea extends BuiltAgent {
  /** Adds a zone and gives its number. */
  zone(name: string): Promise<number>
  /** Adds a record. */
  record(zone: number, fields: object): ReturnType<BuiltAgent['call']>
  zones(): Promise<{ id: number; name: string; soa: string; serial: number }[]>
  records(query?: string): Promise<unknown[]>
  /** Keys of what the responder shall answer, sorted. */
  held(): string[]
  /** Types of the events so far, without those of the node itself. */
  events(): string[]
}

export async function dnsArea(t: Scope, options: BuildAgentOptions = {}): Promise<DnsArea> {
  const config = { api_rate_limit: '10000000', api_rate_burst: '1000000', ...options.config }
  const built = await buildAgent(t, { only: ['node', 'ipam', 'l2', 'networks', 'dns'], ...options, config })
  const { agent, call, plane } = built
  const { latest } = agent.outbox.bounds()
  return {
    ...built,
    zone: async (name) => ((await call('POST', `${DNS}/zones`, { name })).body.zone as { id: number }).id,
    record: (zone, fields) =>
      call('POST', `${DNS}/records`, { zone_id: zone, name: 'www', type: 'A', value: '192.0.2.1', ...fields }),
    zones: async () => (await call('GET', `${DNS}/zones`)).body.zones as never,
    records: async (query = '') => (await call('GET', `${DNS}/records${query}`)).body.records as never,
    held: () => [...plane.entries.keys()].filter((key) => key.startsWith('dns/')).sort(),
    events: () => agent.outbox.after(latest, 1000).map(({ type }) => type),
  }
}
