/** The area and those it needs, over a plane in memory that tells of leases as the responder does, and a clock of its own. */
import { join } from 'node:path'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { listenControl } from '../../../core/transport/listener.ts'
import type { DhcpBinding, DhcpNetwork } from '../../../dataplane/responder/entries.ts'
import type { LeaseEvent } from '../../../dataplane/responder/protocol.ts'
import { type Call, overSocket } from '../../../test/agent.ts'
import { type BuildAgentOptions, type BuiltAgent, buildAgent, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import type { Lease } from '../schemas.ts'
import { verbs } from '../verbs.ts'

export const P = '/api/v1'
export const START = Date.UTC(2030, 0, 1)
export const MAC = '02:00:00:00:00:05'
export const OTHER = '02:00:00:00:00:06'

export interface DhcpArea extends BuiltAgent {
  clock: { now: number }
  /** Calls; throws unless 2xx. */
  ok(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>
  /** Creates a network that is served; returns its id. */
  create(fields?: object): Promise<string>
  /** Binds; returns the id of the endpoint. */
  attach(network: string, ip: string, mac?: string): Promise<string>
  detach(network: string, endpoint: string): Promise<unknown>
  leases(query?: string): Promise<Lease[]>
  /** What the responder tells of 10.0.0.5 in net 1, and resolves when it has been written. */
  hear(event?: Partial<LeaseEvent>): Promise<void>
  /** Entries of the responder. */
  networks(): Map<string, DhcpNetwork>
  bindings(): Map<string, DhcpBinding>
  /** Types of `lease.*` since the last question, with from and to. */
  events(): string[]
  ctl: ReturnType<typeof ctlFor>
  /** Calls over the control socket. */
  control: Call
}

export async function dhcpArea(t: Scope, options: BuildAgentOptions = {}): Promise<DhcpArea> {
  const clock = { now: START }
  const only = ['node', 'ipam', 'l2', 'networks', 'compute', 'dhcp']
  const config = { api_rate_limit: '10000000', api_rate_burst: '1000000', ...options.config }
  const built = await buildAgent(t, { only, now: () => new Date(clock.now), ...options, config })
  const { agent, call, plane } = built
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const seen = { id: agent.outbox.bounds().latest }
  const names = { next: 1 }
  const ofKind = <E>(kind: string) =>
    new Map(
      [...plane.entries]
        .filter(([, entry]) => entry.kind === kind)
        .map(([key, entry]) => [key.slice(key.indexOf('/', 5) + 1), entry as E]),
    )
  const area: DhcpArea = {
    ...built,
    clock,
    async ok(method, path, body) {
      const answer = await call(method, path, body)
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
      return answer.body
    },
    async create(fields = {}) {
      const body = { name: `n${names.next++}`, cidr: '10.0.0.0/24', gateway: '10.0.0.1', dhcp: true, ...fields }
      const { network } = await area.ok('POST', `${P}/networks`, body)
      return (network as { id: string }).id
    },
    async attach(network, ip, mac = MAC) {
      const { endpoint } = await area.ok('POST', `${P}/networks/${network}/attach`, { ip, mac })
      return (endpoint as { id: string }).id
    },
    detach: (network, endpoint) => area.ok('POST', `${P}/networks/${network}/endpoints/${endpoint}/detach`),
    leases: async (query = '') => (await area.ok('GET', `${P}/dhcp/leases${query}`)).leases as Lease[],
    async hear(event = {}) {
      const at = clock.now
      const whole: LeaseEvent = {
        ...{ net: 1, mac: MAC, address: '10.0.0.5', hostname: 'web', state: 'active' },
        ...{ expiresAt: Math.floor(at / 1000) + 3600, at },
        ...event,
      }
      await plane.tell(whole)
    },
    networks: () => ofKind<DhcpNetwork>('dhcp_network'),
    bindings: () => ofKind<DhcpBinding>('dhcp_binding'),
    events() {
      const fresh = agent.outbox.after(seen.id, 10_000)
      seen.id = fresh.at(-1)?.id ?? seen.id
      return fresh
        .filter(({ type }) => type.startsWith('lease.'))
        .map(({ type, data }) => {
          const { from, to } = data as { from?: string; to?: string }
          return from ? `${type} ${from} ${to}` : type
        })
    },
    ctl: ctlFor(verbs, listener.where),
    control: overSocket(listener.where),
  }
  return area
}
