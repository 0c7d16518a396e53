/**
 * Programs on devices that stay there without the agent, in one of two forms: tcx links that are pinned (Linux 6.6), or
 * filters of clsact (every kernel). The agent puts up one of them; what stands in the other, it keeps as it is, because it
 * runs the same program: a device never has both of one kind, so no packet is judged twice, and none unjudged.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { KernelError } from '../../libc.ts'
import { pinAt, pinsIn } from '../bpffs.ts'
import { attachTcx, type Direction, openLink } from '../link.ts'
import type { Program } from '../object.ts'
import type { FilterKind, Filters, OurFilter } from './filters.ts'

/** Where a program hangs; `what` says which of the kind's programs it is. */
export interface Place {
  what: string
  ifindex: number
  direction: Direction
}

export type Found = Place & {
  /** False: what is left of a device that is gone, or a program that goes on from other maps than ours. */
  stands: boolean
}

export interface Attachments {
  /** Everything of the kind, on all devices. @throws KernelError */
  list(): Promise<Found[]>
  /** @throws KernelError */
  stands(place: Place): Promise<boolean>
  /** Attaches unless it stands. False when the device is gone. @throws KernelError */
  attach(place: Place, program: Program): Promise<boolean>
  /** Takes off what stands there, if anything does. @throws KernelError */
  detach(place: Place): Promise<void>
}

/** What one kind of programs is like. */
export interface Kind {
  kind: FilterKind
  /** Directory of the pins of tcx links, and their names. */
  dir: string
  pin(place: Place): string
  place(pin: string): Place | undefined
  /** Before other tcx programs, instead of behind them. */
  first?: boolean
  /** Number of the map that the programs go on from. A program of other maps is another one, and is replaced. */
  set: number
  /** The program itself counts, not what it goes on to: one of another build is replaced. */
  exact?: boolean
}

/**
 * How long a link may stand without its pin, and how often that is looked at, ms: the kernel takes it off in a work queue, after
 * an RCU grace period (bpf_link_put of kernel/bpf/syscall.c). Till then the program judges, and is refused a second time.
 */
const [FORMER_MS, LOOK_MS] = [2000, 5]

/** By which of the two forms programs are put up. */
export type Form = 'tcx' | 'clsact'

/** A form, and whether it holds a place, whatever stands there. */
type Half = Attachments & { holds(place: Place): Promise<boolean> }

/** Attachments of a kind, put up by `form`. `filters` is absent where no device has any of ours, nor will. */
export function attachments(kind: Kind, form: Form, filters: Filters | undefined): Attachments {
  const tcx = tcxLinks(kind)
  if (filters === undefined) return tcx
  const clsact = clsactFilters(kind, filters)
  const [mine, other] = form === 'tcx' ? [tcx, clsact] : [clsact, tcx]
  return {
    list: async () => [...(await mine.list()), ...(await other.list())],
    stands: async (place) => (await mine.stands(place)) || other.stands(place),
    attach: async (place, program) => ((await other.holds(place)) ? other : mine).attach(place, program),
    async detach(place) {
      await mine.detach(place)
      await other.detach(place)
    },
  }
}

function tcxLinks({ dir, pin, place: placeOf, first = false, exact = false }: Kind): Half {
  const path = (place: Place) => join(dir, pin(place))

  /** Whether the pin is a link that is attached; with `renewed` in place of an older program. */
  async function stands(place: Place, renewed?: Program): Promise<boolean> {
    try {
      const link = openLink(path(place))
      try {
        if (link.deviceGone()) return false
        if (renewed !== undefined && link.info().programId !== renewed.id) await link.update(renewed)
        return true
      } finally {
        await link.close()
      }
    } catch (error) {
      // ENOLINK: the device has gone meanwhile. EINVAL: no link at all.
      if (error instanceof KernelError && ['ENOENT', 'ENOLINK', 'EINVAL'].includes(error.code)) return false
      throw error
    }
  }

  return {
    async list() {
      const found: Found[] = []
      for (const name of pinsIn(dir)) {
        const place = placeOf(name)
        if (place !== undefined) found.push({ ...place, stands: await stands(place) })
      }
      return found
    },
    stands: (place) => stands(place),
    holds: (place) => stands(place),
    async attach(place, program) {
      if (await stands(place, exact ? program : undefined)) return true
      rmSync(path(place), { force: true })
      try {
        const link = await behindFormer(() =>
          attachTcx(program, place.ifindex, place.direction, first ? 'first' : 'last'),
        )
        try {
          pinAt(path(place), (pin) => link.pin(pin))
        } finally {
          await link.close()
        }
        return true
      } catch (error) {
        if (isGone(error)) return false
        throw error
      }
    },
    async detach(place) {
      await detachPinned(path(place))
    },
  }
}

function clsactFilters({ kind, set, exact = false }: Kind, filters: Filters): Half {
  const ours = async () => (await filters.list()).filter((it) => it.kind === kind)
  const isAt = (place: Place) => (it: OurFilter) => it.ifindex === place.ifindex && it.side === place.direction
  const whole = (it: OurFilter) => it.set === set
  return {
    list: async () =>
      (await ours()).map((it) => ({ what: it.what, ifindex: it.ifindex, direction: it.side, stands: whole(it) })),
    stands: async (place) => (await ours()).some((it) => isAt(place)(it) && it.what === place.what && whole(it)),
    holds: async (place) => (await ours()).some(isAt(place)),
    async attach(place, program) {
      const { what, ifindex, direction: side } = place
      const present = (await ours()).find(isAt(place))
      const stays = present?.what === what && whole(present) && (!exact || present.programId === program.id)
      return stays || filters.put({ kind, ifindex, side, set, what }, program)
    },
    detach: ({ ifindex, direction: side }) => filters.remove({ kind, ifindex, side }),
  }
}

/** Attaches once the kernel has taken off what somebody has just unpinned. @throws KernelError EEXIST where it stays */
async function behindFormer<T>(attach: () => Promise<T>): Promise<T> {
  for (const until = performance.now() + FORMER_MS; ; await wait(LOOK_MS)) {
    try {
      return await attach()
    } catch (error) {
      const stands = error instanceof KernelError && error.code === 'EEXIST'
      if (!stands || performance.now() > until) throw error
    }
  }
}

/** Takes off what is pinned there, unless it is gone, or its device is. @throws KernelError */
export async function detachPinned(path: string): Promise<void> {
  try {
    await openLink(path).detach()
  } catch (error) {
    if (!isGone(error) && !(error instanceof KernelError && error.code === 'ENOENT')) throw error
  }
}

const isGone = (error: unknown): boolean =>
  error instanceof KernelError && (error.code === 'ENODEV' || error.code === 'ENOLINK')
