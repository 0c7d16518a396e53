/** The firewall over a plane in memory, with REST and the control socket. */
import { join } from 'node:path'
import { listenControl } from '../../../core/transport/listener.ts'
import type { FilterRule } from '../../../dataplane/bpf/firewall/entries.ts'
import type { OrderedRule } from '../../../dataplane/entry.ts'
import { fakePlane } from '../../../dataplane/plane.fake.ts'
import { type Call, overSocket } from '../../../test/agent.ts'
import { type BuildAgentOptions, type BuiltAgent, buildArea, scratch } from '../../../test/build.ts'
import type { Scope } from '../../../test/netns.ts'
import type { Rule } from '../schemas.ts'
import type { Lane } from './lane.ts'

export interface Firewall extends BuiltAgent {
  /** Calls over the control socket. */
  control: Call
  /** Creates a rule; throws unless 201. */
  create(fields: object): Promise<Rule>
  rules(): Promise<Rule[]>
  /** Types of the events since the last question. */
  events(): string[]
  /** Rules of nft in the plane, in the order in which packets would meet them. */
  planned(): OrderedRule[]
  /** The same of the classifier. */
  filters(): FilterRule[]
}

const UNLIMITED = { api_rate_limit: '10000000', api_rate_burst: '1000000' }

export interface FirewallOptions extends BuildAgentOptions {
  /** Who judges; default nft. */
  lane?: Lane
}

export async function firewall(t: Scope, { lane = 'nft', ...options }: FirewallOptions = {}): Promise<Firewall> {
  const built = await buildArea(t, 'firewall', {
    plane: fakePlane({ classifier: lane === 'classifier' }),
    ...options,
    config: { ...UNLIMITED, ...options.config },
  })
  const { agent, call, plane } = built
  const listener = await listenControl(agent.app.routing.bind(agent.app), join(scratch(t), 'control.sock'))
  t.teardown(() => listener.close(0))
  const seen = { id: agent.outbox.bounds().latest }
  return {
    ...built,
    control: overSocket(listener.where),
    async create(fields) {
      const { status, body, text } = await call('POST', '/api/v1/rules', fields)
      if (status !== 201) throw new Error(`POST ${JSON.stringify(fields)}: ${status} ${text}`)
      return body.rule as Rule
    },
    rules: async () => (await call('GET', '/api/v1/rules')).body.rules as Rule[],
    events() {
      const fresh = agent.outbox.after(seen.id, 10_000)
      seen.id = fresh.at(-1)?.id ?? seen.id
      return fresh.map(({ type }) => type)
    },
    planned: () => [...plane.entries.values()].filter((entry) => entry.kind === 'rule').sort(byRank),
    filters: () => [...plane.entries.values()].filter((entry) => entry.kind === 'filter').sort(byRank),
  }
}

const byRank = ({ rank: a }: { rank: readonly number[] }, { rank: b }: { rank: readonly number[] }): number => {
  const at = a.findIndex((value, index) => value !== b[index])
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0)
}
