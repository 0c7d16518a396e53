/** A plane in memory for tests of areas: keeps entries by key and can be told to refuse. */
import { NO_CONNECTIONS } from './connections.ts'
import type { Entry, Passage, Undo } from './entry.ts'
import { reversed } from './entry.ts'
import type { Plane } from './plane.ts'

export interface FakePlane extends Plane {
  readonly entries: Map<string, Entry>
  /** When set, the next `apply` throws it and applies nothing. */
  refuse?: Error | undefined
  /** Number of passages applied so far. */
  applied: number
}

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
    check: () => [{ name: 'nft', available: true, detail: 'fake' }],
    observe: async () => [...entries.values()],
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
    addExpiring: async () => {},
    close: async () => {},
  }
  return plane
}
