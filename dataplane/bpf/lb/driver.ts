/** The driver of virtual addresses: entries in, rows of the pinned maps out. */
import type { Entry, Passage } from '../../entry.ts'
import { KernelError } from '../../libc.ts'
import { type Driver, KernelRefusal } from '../../plane.ts'
import { isVip, type VipEntry } from './entries.ts'
import type { Follower } from './follow.ts'
import type { VipTable } from './table.ts'

export interface DriverParts {
  table: VipTable
  follower: Pick<Follower, 'sync'>
  /** The entries that the maps hold. */
  observe(): Promise<VipEntry[]>
  /** Switches on what the programs need of the node as soon as there is a virtual address. @throws KernelRefusal */
  prepare(): void
  close(): Promise<void>
}

export function balancerDriver({ table, follower, observe, prepare, close }: DriverParts): Driver {
  const step = async ({ before, after }: Passage) => {
    if (after !== undefined && isVip(after)) await table.put(whole(after))
    else if (before !== undefined && isVip(before)) await table.drop(before.key)
  }

  async function carryOut(diff: readonly Passage[]): Promise<void> {
    const had = table.size > 0
    const done: Passage[] = []
    try {
      for (const passage of inTurn(diff)) {
        done.push(passage)
        await step(passage)
      }
      if (had !== table.size > 0) {
        if (!had) prepare()
        await follower.sync()
      }
    } catch (error) {
      for (const { before, after } of done.reverse()) {
        await step({ ...(after && { before: after }), ...(before && { after: before }) })
      }
      if (had !== table.size > 0) await follower.sync()
      throw error instanceof KernelError ? new KernelRefusal(error.message) : error
    }
  }

  return {
    name: 'balancer',
    kinds: ['vip'],
    observe: async (): Promise<Entry[]> => {
      await follower.sync()
      return observe()
    },
    async apply(diff) {
      table.settle()
      await carryOut(diff)
      // Rows that the change has emptied are filled again with what connections know them by.
      return () =>
        carryOut(
          diff.map(({ before, after }) => ({ ...(after && { before: after }), ...(before && { after: before }) })),
        )
    },
    close,
  }
}

/** What goes makes room for what comes. */
function inTurn(diff: readonly Passage[]): Passage[] {
  return [...diff.filter(({ after }) => after === undefined), ...diff.filter(({ after }) => after !== undefined)]
}

/** An entry as it shall be, when the undoing of a repair asks for the damaged one. */
function whole({ damaged: _, ...entry }: VipEntry): VipEntry {
  return entry
}
