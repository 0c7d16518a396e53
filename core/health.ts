/** What is amiss with this node, and which of its parts do their work. */
import type { Plane } from '../dataplane/plane.ts'
import type { AreaStates } from './areas.ts'
import type { Stages } from './stages.ts'
import type { WatchedStore } from './state/watched.ts'

/**
 * What can make a node `degraded`: the kernel does not hold what is stored, the store cannot be written, an entry waits for
 * something, an area does not do its work, something should be put right, a setting is ignored.
 */
export const SOURCES = ['kernel', 'store', 'waiting', 'ailment', 'caution', 'setting'] as const
export type Source = (typeof SOURCES)[number]

/** Something that makes the node `degraded`. */
export interface Amiss {
  source: Source
  what: string
  /** What to do, where who tells it knows; core/remedies.ts knows the rest. */
  remedy?: string
}

/** What is amiss by the word of who alone knows what to do about it. */
export type Advice = Readonly<Required<Omit<Amiss, 'source'>>>

export interface Health {
  /** What is amiss with the node as a whole; empty while all is well. */
  troubles(): string[]
  /** What should be put right though everything runs on as before, by what it is about: `config`, `certificate`, an area. */
  cautions: Map<string, Advice>
  /** All of it but settings that are ignored. */
  amiss(): Amiss[]
  /** Why the node (''), an area, `dataplane` or `storage` does not do its work; undefined while it does. */
  ailing(name: string): string | undefined
}

export interface HealthParts {
  /** Why the kernel does not hold what is stored, by area; empty while it does. */
  kernel: ReadonlyMap<string, string>
  /** Why areas say that they do not do their work, by area. */
  ailments?: ReadonlyMap<string, Advice>
  /** What is told as `Health.cautions`, which others may write, too. */
  cautions?: Health['cautions']
  store: Pick<WatchedStore, 'problem'>
  plane: Plane
  states: AreaStates
  /** Absent: it has started. */
  stages?: Pick<Stages, 'doing'>
}

export function openHealth({
  kernel,
  ailments = new Map(),
  cautions = new Map(),
  store,
  plane,
  states,
  stages,
}: HealthParts): Health {
  const first = (): string | undefined => kernel.values().next().value
  const ofNode = (): Amiss[] => [
    ...Array.from(new Set(kernel.values()), (what) => ({ source: 'kernel' as const, what })),
    ...[store.problem() ?? []].flat().map((what) => ({ source: 'store' as const, what })),
    ...(stages?.doing() === undefined ? waiting(plane) : []).map((what) => ({ source: 'waiting' as const, what })),
  ]
  return {
    troubles: () => ofNode().map(({ what }) => what),
    cautions,
    amiss: () => [
      ...ofNode(),
      ...Array.from(ailments.values(), (advice) => ({ source: 'ailment' as const, ...advice })),
      ...Array.from(cautions.values(), (advice) => ({ source: 'caution' as const, ...advice })),
    ],
    ailing(name) {
      if (name === 'storage') return store.problem()
      const starting = stages?.doing()
      if (starting !== undefined) return starting
      if (name === '') return ofNode()[0]?.what
      if (name === 'dataplane') return first() ?? unusable(plane)
      return states.reasonOff(name) ?? kernel.get(name) ?? ailments.get(name)?.what
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
