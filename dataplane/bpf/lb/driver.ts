/** The driver of virtual addresses: entries in, rows of the pinned maps out. */
import type { Passage } from '../../entry.ts'
import { reversed } from '../../entry.ts'
import { KernelError } from '../../libc.ts'
import { type Driver, KernelRefusal } from '../../plane.ts'
import { isVip, type VipEntry } from './entries.ts'
import type { Session } from './session.ts'
import type { VipTable } from './table.ts'

type Loaded = Pick<Session, 'table' | 'hold' | 'sync' | 'observe'>

export interface DriverParts {
  /** What is loaded; undefined while there is nothing to balance. */
  standing(): Promise<Loaded | undefined>
  /** The same, loaded if need be. @throws KernelRefusal */
  ready(): Promise<Loaded>
  /** The programs of this agent are where they shall be. */
  settled(): void
  /** Switches on what the programs need of the node as soon as there is a virtual address. @throws KernelRefusal */
  prepare(): void
  close(): Promise<void>
}

export function balancerDriver({ standing, ready, settled, prepare, close }: DriverParts): Driver {
  async function carryOut(diff: readonly Passage[]): Promise<void> {
    const comes = diff.some(({ after }) => after !== undefined)
    const loaded = comes ? await ready() : await standing()
    // What goes went with the programs.
    if (loaded === undefined) return
    const { table, sync } = loaded
    const had = table.size > 0
    const done: Passage[] = []
    try {
      for (const group of grouped(inTurn(diff))) {
        done.push(...group)
        await together(group, (passage) => step(table, passage))
      }
      if (had !== table.size > 0) {
        if (!had) prepare()
        await sync()
      }
    } catch (error) {
      for (const passage of reversed(done.reverse())) await step(table, passage)
      if (had !== table.size > 0) await sync()
      throw error instanceof KernelError ? new KernelRefusal(error.message) : error
    }
  }

  return {
    name: 'balancer',
    kinds: ['vip'],
    hold: async () => (await standing())?.hold(),
    async observe() {
      const loaded = await standing()
      if (loaded === undefined) return []
      await loaded.sync()
      const found = await loaded.observe()
      settled()
      return found
    },
    async apply(diff) {
      const loaded = await standing()
      loaded?.table.settle()
      await carryOut(diff)
      // Rows that the change has emptied are filled again with what connections know them by.
      return () => carryOut(reversed(diff))
    },
    close,
  }
}

async function step(table: VipTable, { before, after }: Passage): Promise<void> {
  if (after !== undefined && isVip(after)) await table.put(whole(after))
  else if (before !== undefined && isVip(before)) await table.drop(before.key)
}

/** What goes makes room for what comes. */
function inTurn(diff: readonly Passage[]): Passage[] {
  return [...diff.filter(({ after }) => after === undefined), ...diff.filter(({ after }) => after !== undefined)]
}

/** For the virtual addresses of one group the kernel waits once (publisher.ts); their rings, 64 KiB each, are there at once. */
const GROUP = 128

/** In order; new virtual addresses in groups, since they have nothing to do with each other. */
function* grouped(diff: readonly Passage[]): Generator<Passage[]> {
  let group: Passage[] = []
  for (const passage of diff) {
    if (passage.before === undefined && group.length < GROUP) {
      group.push(passage)
      continue
    }
    if (group.length > 0) yield group
    group = []
    if (passage.before === undefined) group.push(passage)
    else yield [passage]
  }
  if (group.length > 0) yield group
}

/** Does all of it, whatever fails, before it throws what failed first. */
async function together<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const failed = (await Promise.allSettled(items.map(work))).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

/** An entry as it shall be, when the undoing of a repair asks for the damaged one. */
function whole({ damaged: _, ...entry }: VipEntry): VipEntry {
  return entry
}
