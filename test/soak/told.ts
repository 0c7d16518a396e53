/** What the agent told by itself of the kernel being otherwise than stored: its events of drift, and the passes in its log. */
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { Database } from '../../core/state/sqlite.ts'
import type { RunningAgent } from '../agent.ts'

/** A pass that found something, of one cause (core/observe/passes.ts). */
export interface Pass {
  cause: string
  /** `<key> <state>`, the first of them. */
  found: string[]
  /** As it was logged. */
  text: string
}

const PASSES = new Set([
  'kernel brought to the store',
  'somebody else changed what is ours in the kernel',
  'the kernel could not be brought to the store; this is tried again',
])

export class Told {
  readonly #agent: Pick<RunningAgent, 'stateDir' | 'logged'>
  #event = 0
  #line = 0

  constructor(agent: Pick<RunningAgent, 'stateDir' | 'logged'>) {
    this.#agent = agent
    // The first boot had everything to make.
    this.#line = agent.logged.length
  }

  /** Since the last call of this; ask the agent something of the pipeline before, so that the event is stored. */
  drifts(): string[] {
    const store = new Database(join(this.#agent.stateDir, 'stratum.db'), { readonly: true, fileMustExist: true })
    try {
      const rows = store
        .prepare("select id, data from core_events where id > ? and type = 'agent.drift' order by id")
        .all(this.#event) as { id: number; data: string }[]
      this.#event = rows.at(-1)?.id ?? this.#event
      return rows.map(({ data }) => data)
    } finally {
      store.close()
    }
  }

  /** Since the last call of this. */
  async passes(): Promise<Pass[]> {
    // What was written before an answer may be read after it.
    await turn()
    await turn()
    const lines = this.#agent.logged.slice(this.#line)
    this.#line += lines.length
    return lines
      .filter(({ msg }) => PASSES.has(String(msg)))
      .map((line) => ({
        cause: String(line.cause),
        found: Array.isArray(line.found) ? line.found.map(String) : [],
        text: JSON.stringify(line),
      }))
  }
}

const TENANCY = ['networks', 'dhcp', 'billing', 'macbind', 'vxlan', 'vlan', 'bandwidth', 'firewall', 'dns', 'l2']
/** The areas, or parts of them, whose objects a change of a collection may concern; those of other collections have none in the kernel. */
const CONCERNED: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    ['tenants', 'networks', 'endpoints', 'machines', 'ranges', 'billing'].map((of) => [of, TENANCY]),
  ),
  ...Object.fromEntries(['zones', 'records'].map((of) => [of, ['dns']])),
  ...Object.fromEntries(['routes', 'policies'].map((of) => [of, ['routes']])),
  ...Object.fromEntries(['forwards', 'snats'].map((of) => [of, ['nat']])),
  ...Object.fromEntries(['overlays', 'peers'].map((of) => [of, ['vxlan', 'firewall']])),
  ...Object.fromEntries(['rules', 'default'].map((of) => [of, ['firewall']])),
  ...Object.fromEntries(['vips', 'backends'].map((of) => [of, ['lb']])),
  ...Object.fromEntries(['limits', 'shared', 'members', 'quotas'].map((of) => [of, ['bandwidth']])),
  ...Object.fromEntries(
    ['neighbors', 'announcements', 'prefix_lists', 'route_maps', 'neighbor_policies'].map((of) => [
      of,
      ['bgp', 'firewall'],
    ]),
  ),
  // The responder of another build begins with nothing, while the former one goes on (dataplane/responder/driver.ts).
  upgrade: ['dns', 'dhcp'],
  // Pairs of devices that nothing lies on any longer go by themselves a moment later (plugins/bandwidth/upkeep.ts).
  upkeep: ['bandwidth/link'],
  floats: ['float'],
  gateway: ['gateway'],
  bridges: ['l2'],
  vlans: ['vlan'],
  macbinds: ['macbind'],
}

/** Whatever a pass found that a change of these collections, interrupted by a kill, cannot have left. */
export function unexplained({ found }: Pass, collections: readonly string[]): string[] {
  const concerned = collections.flatMap((of) => CONCERNED[of] ?? [])
  return found.filter((one) => !concerned.some((part) => one.startsWith(`${part}/`)))
}
