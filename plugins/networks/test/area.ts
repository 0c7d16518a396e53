/** Networks over a plane in memory. */
import { system } from '../../../core/state/events.ts'
import { type BuildAgentOptions, type BuiltAgent, buildArea } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import { snapshot } from '../../../test/rest/snapshot.ts'
import { attachNic, detachNics, type Nic, type NicInput } from '../offers.ts'
import type { Endpoint, Network, Range, RoutedAddress } from '../schemas.ts'

export const P = '/api/v1'
/** The area and those it needs. */
export const AREAS = ['node', 'ipam', 'l2', 'networks']
/** Keys of the entries that stand whatever networks there are. */
export const ALWAYS = ['networks/networks_guests', 'networks/networks_input', 'networks/networks_postrouting']
export const NOW = '2030-01-01T00:00:00.000Z'

export interface Networks extends BuiltAgent {
  /** Creates a network; throws unless 201. */
  create(fields?: object): Promise<Network>
  endpoints(network: Network, query?: string): Promise<Endpoint[]>
  /** Attaches; throws unless 200. */
  attach(network: Network, body?: object): Promise<Endpoint>
  detach(endpoint: Endpoint): ReturnType<BuiltAgent['call']>
  changeMac(endpoint: Endpoint, mac: unknown): ReturnType<BuiltAgent['call']>
  addRange(cidr: string, fields?: object): Promise<Range>
  routed(query?: string): Promise<{ gateway: string; ranges: Range[]; addresses: RoutedAddress[] }>
  /** What another area does for a machine. */
  attachNic(machine: string, wanted: NicInput): Promise<Nic>
  detachNics(machine: string): Promise<Nic[]>
  /** Events since the last question. */
  events(): { type: string; resource: string; data: unknown }[]
  /** Entries of the plane, by key. */
  planned(prefix?: string): string[]
  /** Asserts by throwing that `work` changes neither a row nor the plane, and resolves with its answer. */
  unchanged<T>(work: () => Promise<T>): Promise<T>
}

const UNLIMITED = { api_rate_limit: '10000000', api_rate_burst: '1000000' }

export async function networks(t: Scope, options: BuildAgentOptions = {}): Promise<Networks> {
  const config = { ...UNLIMITED, ...options.config }
  const built = await buildArea(t, 'networks', { only: AREAS, now: () => new Date(NOW), ...options, config })
  const { agent, call, plane } = built
  const seen = { id: agent.outbox.bounds().latest }
  const certain = async (status: number, method: string, path: string, body?: unknown) => {
    const answer = await call(method, `${P}${path}`, body)
    if (answer.status !== status) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const names = { next: 1 }
  const of = ({ network_id, id }: Endpoint) => `${P}/networks/${network_id}/endpoints/${id}`
  return {
    ...built,
    async create(fields = {}) {
      const body = { name: `n${names.next++}`, cidr: '10.0.0.0/24', ...fields }
      return (await certain(201, 'POST', '/networks', body)).network as Network
    },
    endpoints: async ({ id }, query = '') =>
      (await certain(200, 'GET', `/networks/${id}/endpoints${query}`)).endpoints as Endpoint[],
    attach: async ({ id }, body) => (await certain(200, 'POST', `/networks/${id}/attach`, body)).endpoint as Endpoint,
    detach: (endpoint) => call('POST', `${of(endpoint)}/detach`),
    changeMac: (endpoint, mac) => call('PUT', `${of(endpoint)}/mac`, { mac }),
    addRange: async (cidr, fields) =>
      (await certain(201, 'POST', '/routed-addresses', { cidr, ...fields })).range as Range,
    routed: async (query = '') => (await certain(200, 'GET', `/routed-addresses${query}`)) as never,
    attachNic: async (machine, wanted) =>
      (await agent.pipeline.mutate('networks', system('test'), (tx) => attachNic(tx, machine, wanted, NOW))).result,
    detachNics: async (machine) =>
      (await agent.pipeline.mutate('networks', system('test'), (tx) => detachNics(tx, machine))).result,
    events() {
      const fresh = agent.outbox.after(seen.id, 10_000)
      seen.id = fresh.at(-1)?.id ?? seen.id
      return fresh.map(({ type, resource, data }) => ({ type, resource, data }))
    },
    planned: (prefix = '') => [...plane.entries.keys()].filter((key) => key.startsWith(`networks/${prefix}`)).sort(),
    async unchanged(work) {
      const before = JSON.stringify(snapshot(built))
      const result = await work()
      if (JSON.stringify(snapshot(built)) !== before) throw new Error(`something changed, although ${String(work)}`)
      return result
    },
  }
}
