/**
 * The data plane as the core sees it: observe what is ours, apply a difference, take it back.
 * Knows no area, no HTTP and no SQL. Drivers apply in the order of their turns and undo in reverse.
 */
import type { Filter } from './bpf/firewall/filter.ts'
import type { Traffic } from './bpf/flow/traffic.ts'
import type { Balancer } from './bpf/lb/balancer.ts'
import type { Ports } from './bpf/port/open.ts'
import type { Connections } from './connections.ts'
import type { Devices } from './devices.ts'
import type { Entry, Passage, Undo } from './entry.ts'
import { reversed } from './entry.ts'
import type { Bgp } from './frr/bgp.ts'
import { KernelError } from './libc.ts'
import type { DefaultRoute } from './netlink/default-route.ts'
import type { Leases } from './responder/driver.ts'
import type { Shaping } from './shaping/open.ts'

/** Thrown when it is not known whether the kernel took the change: the caller must reconcile before going on. */
export class UncertainOutcome extends Error {
  override readonly name = 'UncertainOutcome'
}

/** What the kernel answered to a change that it refused; nothing of the change is in force. */
export class KernelRefusal extends Error {
  override readonly name: string = 'KernelRefusal'
}

/** A change cannot be built on what a driver holds, because it has lost that by itself. Nothing of the change is in force. */
export class GroundLost extends KernelRefusal {
  override readonly name: string = 'GroundLost'
}

/**
 * `change`: all or nothing. `restore`, for bringing the kernel to what is stored when nobody is there to be told: what
 * the kernel refuses by itself for reasons outside (its device is gone, its place taken) waits until that has changed,
 * see {@link Plane.pending}, and keeps nothing else from being put in force.
 */
export type ApplyMode = 'change' | 'restore'

/** An entry that shall be in force and waits, and for what. */
export interface Pending {
  key: string
  reason: string
  /** The device that it waits for, where it is that alone. */
  device?: string
}

export interface Driver {
  name: string
  kinds: readonly Entry['kind'][]
  /**
   * Reads what is ours from the kernel. Also (re)adopts it as the ground that the next `apply` builds on. `desired` is what
   * shall be, for drivers that cannot read all of an entry back and compare instead.
   */
  observe(desired?: readonly Entry[]): Promise<Entry[]>
  /**
   * Applies all passages or none. Throws KernelRefusal or UncertainOutcome. May return how to take it back, where that is
   * more than applying the reverse. A driver that makes no entry wait applies `restore` as `change`.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: most drivers return nothing, and say so
  apply(diff: readonly Passage[], mode?: ApplyMode): Promise<Undo | void>
  /**
   * Puts back what somebody has taken away of what judges by the entries, before a change of any driver: a change must not
   * be answered for while nobody carries it out. Called before every change, so it must cost next to nothing when nothing
   * is amiss. Throws KernelRefusal or KernelError.
   */
  hold?(): Promise<void>
  /** Absent: no entry waits. */
  pending?(): Pending[]
  /**
   * Whether somebody else may have changed something here since the last `observe` began. Asked every second, so it must
   * cost next to nothing. Our own transactions do not count; where it is not certain whose a change was, it was theirs.
   * Once true it stays so until an observation has succeeded. Absent: only `observe` can tell.
   */
  changedByOthers?(): Promise<boolean>
  close(): Promise<void>
}

/** Whether a facility works on this node, and why not. */
export interface Facility {
  name: string
  available: boolean
  detail: string
  /** How often its helper process was started anew, where there is one. */
  restarts?: number
}

export interface Plane {
  /** State of each facility; never throws. */
  check(): Facility[]
  /** Kinds of entries that some driver carries out; others are nobody's on this node. */
  readonly kinds: ReadonlySet<Entry['kind']>
  /** `desired`: see Driver. */
  observe(desired?: readonly Entry[]): Promise<Entry[]>
  /** Rejects with KernelRefusal or UncertainOutcome; nothing is applied then. Default mode: `change`. */
  apply(diff: readonly Passage[], mode?: ApplyMode): Promise<Undo>
  /** What was observed as in force and waits for a device or an address. */
  pending(): Pending[]
  /** Whether some driver says that others may have changed something. */
  changedByOthers(): Promise<boolean>
  readonly connections: Connections
  readonly defaultRoute: DefaultRoute
  readonly devices: Devices
  readonly ports: Ports
  readonly traffic: Traffic
  readonly filter: Filter
  readonly leases: Leases
  readonly balancer: Balancer
  readonly shaping: Shaping
  readonly bgp: Bgp
  /** Adds elements to a set whose elements expire by themselves; they are nobody's desired state. */
  addExpiring(set: string, elements: readonly string[]): Promise<void>
  /** Whether a set has an element, as the kernel has it now; not where there is no such set. */
  holds(set: string, element: string): Promise<boolean>
  close(): Promise<void>
}

/** Drivers that need nothing of each other are at work side by side. */
export type Turn = Driver | readonly Driver[]

/** Joins drivers, which have their turns one after the other, into one plane. `facilities` tells what this node can do. */
export function joinDrivers(
  turns: readonly Turn[],
  facilities: () => Facility[],
): Pick<Plane, 'check' | 'kinds' | 'observe' | 'apply' | 'pending' | 'changedByOthers' | 'close'> {
  const drivers = turns.flat()

  return {
    check: facilities,

    kinds: new Set(drivers.flatMap(({ kinds }) => kinds)),

    async observe(desired = []) {
      const all: Entry[] = []
      for (const driver of drivers) for (const entry of await driver.observe(desired)) all.push(entry)
      return all
    },

    async apply(diff, mode) {
      await holdAll(drivers)
      const done: Undo[] = []
      const undo: Undo = async () => {
        for (const back of done.reverse()) await back()
      }
      const work = async (driver: Driver) => {
        const part = shareOf(driver, diff)
        if (part.length === 0) return
        const back = await driver.apply(part, mode)
        done.push(back ?? (async () => void (await driver.apply(reversed(part)))))
      }
      for (const turn of turns) {
        const refused = (await Promise.allSettled([turn].flat().map(work))).filter((it) => it.status === 'rejected')
        const errors: unknown[] = refused.map(({ reason }) => reason)
        if (errors.length === 0) continue
        await undo().catch((cause: unknown) => {
          throw new UncertainOutcome('a change was refused, and what came before could not be undone', { cause })
        })
        throw errors.find((it) => it instanceof UncertainOutcome) ?? errors[0]
      }
      return undo
    },

    pending: () => drivers.flatMap((driver) => driver.pending?.() ?? []),

    async changedByOthers() {
      for (const driver of drivers) if (await driver.changedByOthers?.()) return true
      return false
    },

    async close() {
      for (const driver of [...drivers].reverse()) await driver.close()
    },
  }
}

/** One after the other: some need what others hold. @throws KernelRefusal */
async function holdAll(drivers: readonly Driver[]): Promise<void> {
  for (const driver of drivers) {
    try {
      await driver.hold?.()
    } catch (error) {
      throw error instanceof KernelError ? new KernelRefusal(error.message, { cause: error }) : error
    }
  }
}

function shareOf({ kinds }: Driver, diff: readonly Passage[]): Passage[] {
  const own = new Set(kinds)
  return diff.filter(({ before, after }) => {
    const kind = (after ?? before)?.kind
    return kind !== undefined && own.has(kind)
  })
}
