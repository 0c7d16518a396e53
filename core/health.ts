/** What is amiss with this node, and which of its parts do their work. */
import type { Plane } from '../dataplane/plane.ts'
import type { AreaStates } from './areas.ts'
import type { WatchedStore } from './state/watched.ts'

export interface Health {
  /** What is amiss with the node as a whole; empty while all is well. */
  troubles(): string[]
  /** What should be put right though everything runs on as before, by what it is about: `config`, `certificate`, an area. */
  cautions: Map<string, string>
  /** Why an area, `dataplane` or `storage` does not do its work; undefined while it does. */
  ailing(name: string): string | undefined
}

export interface HealthParts {
  /** Why the kernel does not hold what is stored, by area; empty while it does. */
  kernel: ReadonlyMap<string, string>
  /** Why areas say that they do not do their work, by area. */
  ailments?: ReadonlyMap<string, string>
  /** What is told as `Health.cautions`, which others may write, too. */
  cautions?: Health['cautions']
  store: Pick<WatchedStore, 'problem'>
  plane: Plane
  states: AreaStates
}

export function openHealth({ kernel, ailments, cautions = new Map(), store, plane, states }: HealthParts): Health {
  const first = (): string | undefined => kernel.values().next().value
  return {
    troubles: () => [...new Set(kernel.values()), ...[store.problem() ?? []].flat(), ...waiting(plane)],
    cautions,
    ailing(name) {
      if (name === 'storage') return store.problem()
      if (name === 'dataplane') return first() ?? unusable(plane)
      return states.reasonOff(name) ?? kernel.get(name) ?? ailments?.get(name)
    },
  }
}

/** What shall be in the kernel and waits for a device or an address; the first few by name. */
function waiting(plane: Plane): string[] {
  const pending = plane.pending().map(({ reason }) => reason)
  return pending.length > 3 ? [...pending.slice(0, 3), `${pending.length - 3} more entries wait`] : pending
}

/** Why this node has no data plane; undefined when some facility works. */
function unusable(plane: Plane): string | undefined {
  const facilities = plane.check()
  return facilities.some(({ available }) => available) ? undefined : facilities.map(({ detail }) => detail).join('; ')
}
