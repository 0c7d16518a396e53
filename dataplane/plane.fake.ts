/** A plane in memory for tests of areas: keeps entries by key and can be told to refuse. */
import { NO_PORTS } from './bpf/port/open.ts'
import { NO_CONNECTIONS } from './connections.ts'
import { NO_DEVICES } from './devices.ts'
import type { Entry, Passage, Undo } from './entry.ts'
import { reversed } from './entry.ts'
import { NO_DEFAULT_ROUTE } from './netlink/default-route.ts'
import { NETLINK_KINDS } from './netlink/entries.ts'
import type { Plane } from './plane.ts'

export interface FakePlane extends Plane {
  readonly entries: Map<string, Entry>
  /** When set, the next `apply` throws it and applies nothing. */
  refuse?: Error | undefined
  /** Number of passages applied so far. */
  applied: number
  /** Set it after changing `entries`: what the plane then says of others, until it is observed. */
  meddled: boolean
}

const EVERY_KIND: Plane['kinds'] = new Set([
  ...(['rule', 'chain', 'element'] as const),
  ...(['net', 'binding', 'macbind', 'vlan', 'uplink'] as const),
  ...NETLINK_KINDS,
])

export function fakePlane(): FakePlane {
  const entries = new Map<string, Entry>()
  const walk = (diff: readonly Passage[]) => {
    for (const { before, after } of diff) {
      if (before) entries.delete(before.key)
      if (after) entries.set(after.key, after)
    }
    plane.applied += diff.length
  }
  const plane: FakePlane = {
    entries,
    applied: 0,
    meddled: false,
    kinds: EVERY_KIND,
    check: () => ['nft', 'netlink', 'port'].map((name) => ({ name, available: true, detail: 'fake' })),
    async observe() {
      plane.meddled = false
      return [...entries.values()]
    },
    changedByOthers: async () => plane.meddled,
    pending: () => [],
    async apply(diff): Promise<Undo> {
      await new Promise(setImmediate)
      const refusal = plane.refuse
      plane.refuse = undefined
      if (refusal) throw refusal
      walk(diff)
      return async () => walk(reversed(diff))
    },
    // Rejecting keeps tests deterministic: background work on connections ends at once and changes nothing.
    connections: { ...NO_CONNECTIONS, list: () => Promise.reject(new Error('a plane in memory has no connections')) },
    defaultRoute: NO_DEFAULT_ROUTE,
    devices: NO_DEVICES,
    ports: NO_PORTS,
    addExpiring: async () => {},
    close: async () => {},
  }
  return plane
}
