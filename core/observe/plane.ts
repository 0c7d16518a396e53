/** The plane as it is, with a count of what goes through it. */
import type { Connection } from '../../dataplane/connections.ts'
import { type Passage, reversed } from '../../dataplane/entry.ts'
import { KernelRefusal, type Plane, UncertainOutcome } from '../../dataplane/plane.ts'
import type { PlaneCounts } from './counts.ts'

/** Whatever a plane can do besides is inherited, so it works as before. */
export function watchPlane(plane: Plane, counts: PlaneCounts): Plane {
  async function counted<T>(diff: readonly Passage[], work: () => Promise<T>): Promise<T> {
    try {
      const done = await work()
      counts.applied(diff)
      return done
    } catch (error) {
      if (error instanceof KernelRefusal) counts.refused()
      if (error instanceof UncertainOutcome) counts.uncertain()
      throw error
    }
  }

  const watched: Pick<Plane, 'apply' | 'connections'> = {
    async apply(...given) {
      const [diff] = given
      const undo = await counted(diff, () => plane.apply(...given))
      return () => counted(reversed(diff), undo)
    },
    get connections() {
      const { connections } = plane
      return {
        ...connections,
        async end(chosen: readonly Connection[]) {
          const ended = await connections.end(chosen)
          counts.connectionsEnded(ended)
          return ended
        },
      }
    },
  }
  return Object.setPrototypeOf(watched, plane)
}
