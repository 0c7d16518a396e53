/**
 * The data plane as the core sees it: observe what is ours, apply a difference, take it back.
 * Knows no area, no HTTP and no SQL. Drivers apply in the order given here and undo in reverse.
 */
import type { Connections } from './connections.ts'
import type { Entry, Passage, Undo } from './entry.ts'
import { reversed } from './entry.ts'

/** Thrown when it is not known whether the kernel took the change: the caller must reconcile before going on. */
export class UncertainOutcome extends Error {
  override readonly name = 'UncertainOutcome'
}

/** What the kernel answered to a change that it refused; nothing of the change is in force. */
export class KernelRefusal extends Error {
  override readonly name = 'KernelRefusal'
}

export interface Driver {
  name: string
  kinds: readonly Entry['kind'][]
  /** Reads what is ours from the kernel. Also (re)adopts it as the ground that the next `apply` builds on. */
  observe(): Promise<Entry[]>
  /** Applies all passages or none. Throws KernelRefusal or UncertainOutcome. */
  apply(diff: readonly Passage[]): Promise<void>
  close(): Promise<void>
}

/** Whether a facility works on this node, and why not. */
export interface Facility {
  name: string
  available: boolean
  detail: string
}

export interface Plane {
  /** State of each facility; never throws. */
  check(): Facility[]
  observe(): Promise<Entry[]>
  /** Rejects with KernelRefusal or UncertainOutcome; nothing is applied then. */
  apply(diff: readonly Passage[]): Promise<Undo>
  readonly connections: Connections
  /** Adds elements to a set whose elements expire by themselves; they are nobody's desired state. */
  addExpiring(set: string, elements: readonly string[]): Promise<void>
  close(): Promise<void>
}

/** Joins drivers into one plane. `facilities` tells what this node can do. */
export function joinDrivers(
  drivers: readonly Driver[],
  facilities: () => Facility[],
): Omit<Plane, 'connections' | 'addExpiring'> {
  const share = (driver: Driver, diff: readonly Passage[]) =>
    diff.filter(({ before, after }) => {
      const kind = (after ?? before)?.kind
      return kind !== undefined && driver.kinds.includes(kind)
    })

  return {
    check: facilities,

    async observe() {
      const all: Entry[] = []
      for (const driver of drivers) for (const entry of await driver.observe()) all.push(entry)
      return all
    },

    async apply(diff) {
      const done: { driver: Driver; part: Passage[] }[] = []
      const undo: Undo = async () => {
        for (const { driver, part } of done.reverse()) await driver.apply(reversed(part))
      }
      for (const driver of drivers) {
        const part = share(driver, diff)
        if (part.length === 0) continue
        try {
          await driver.apply(part)
        } catch (error) {
          await undo().catch((cause: unknown) => {
            throw new UncertainOutcome(`${driver.name} refused, and what came before it could not be undone`, { cause })
          })
          throw error
        }
        done.push({ driver, part })
      }
      return undo
    },

    async close() {
      for (const driver of [...drivers].reverse()) await driver.close()
    },
  }
}
