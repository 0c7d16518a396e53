/** What the programs on br-work have counted: flows, and what each MAC has sent and got. */
import { steadyStart } from '../../clock.ts'
import type { PortMaps } from '../port/maps.ts'
import type { UsageRow } from './layout.ts'
import { decodeFlows, FLOWS_A_TURN, type Flow, type FlowFilter, type Instant } from './read.ts'

/** Counters of a MAC; they only grow while `born` is the same. */
export interface Usage extends Omit<UsageRow, 'home'> {
  mac: string
  /** Whether it sends and gets as one that is bound to an endpoint. */
  bound: boolean
}

export interface Traffic {
  /** The flows that there are, in no order, about FLOWS_A_TURN at a time. @throws KernelError */
  flows(filter?: FlowFilter): AsyncGenerator<Flow[]>
  /** How many there can be; the kernel then forgets those that were silent longest. */
  flowsLimit(): number
  /** Whether flows are kept; what MACs send and get is counted always. */
  keepFlows(on: boolean): void
  /** All MACs that the maps know. A MAC that was bound and is not, or the other way round, is there twice. */
  usage(): Promise<Usage[]>
}

/** Programs that are not loaded have counted nothing. */
export const NO_TRAFFIC: Traffic = {
  async *flows() {},
  flowsLimit: () => 0,
  keepFlows: () => {},
  usage: async () => [],
}

export function openTraffic(maps: PortMaps): Traffic {
  const start = steadyStart()
  const present = (): Instant => ({ monotonic: process.hrtime.bigint(), start: start() })
  return {
    async *flows(filter = {}) {
      for (const [family, map] of [
        [4, maps.flows4],
        [6, maps.flows6],
      ] as const) {
        for await (const chunk of map.lookupChunks(FLOWS_A_TURN)) yield decodeFlows(family, chunk, present(), filter)
      }
    },
    flowsLimit: () => maps.flows4.info.maxEntries + maps.flows6.info.maxEntries,
    keepFlows: (on) => maps.flowsOff.set(0, on ? 0 : 1),
    async usage() {
      const all: Usage[] = []
      for (const [bound, map] of [
        [true, maps.usageBound],
        [false, maps.usageOpen],
      ] as const) {
        for (const [mac, { home: _, ...row }] of await map.lookupBatch()) all.push({ mac, bound, ...row })
      }
      return all
    },
  }
}
