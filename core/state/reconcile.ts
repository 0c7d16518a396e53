/**
 * Brings the kernel to what is committed: observe what is ours, compare with everything desired, remove what is ours and
 * undesired, add the rest. Objects of areas that are off are left as they are; what is not ours is never looked at.
 */
import { compare, type Entry, isFrame, type Passage } from '../../dataplane/entry.ts'
import { KernelRefusal, type Plane } from '../../dataplane/plane.ts'
import { stepwise } from '../../dataplane/slices.ts'
import type { Db, LoadedArea } from '../area.ts'
import { desiredOn } from '../areas.ts'
import type { Config } from '../config.ts'
import { inSlices } from '../slices.ts'

export interface Repair {
  added: number
  changed: number
  removed: number
}

/** What a pass did: in all, and by area; an area that was in order is not listed. */
export interface Repairs extends Repair {
  areas: Record<string, Repair>
}

export interface ReconcileParts {
  plane: Plane
  read: Db
  config: Config
  areas: ReadonlyMap<string, LoadedArea>
}

/** In some areas the kernel could not be brought to the store, and holds there what it held before. */
export class RepairRefused extends Error {
  override readonly name = 'RepairRefused'
  /** Why, by area: what the kernel says, or why it is not known what it shall hold. */
  readonly areas: ReadonlyMap<string, string>
  /** What was repaired in the others. */
  readonly done: Repairs

  constructor(areas: ReadonlyMap<string, string>, done: Repairs) {
    super(Array.from(areas, ([area, why]) => `${area}: ${why}`).join('; '))
    this.areas = areas
    this.done = done
  }
}

export const areaOf = ({ before, after }: Passage): string => {
  const key = (after ?? before)?.key ?? ''
  return key.slice(0, key.indexOf('/'))
}

export interface Deviations {
  /** The passages that lead from what the kernel holds to what is committed. */
  diff: Passage[]
  /** Areas whose rows could not be rendered, and why: they are left as they are. */
  unreadable: ReadonlyMap<string, string>
}

/** Call it while no mutation runs. */
export async function deviations({ plane, read, config, areas }: ReconcileParts): Promise<Deviations> {
  const desired: Entry[] = []
  const unreadable = new Map<string, string>()
  for (const area of areas.values()) {
    const { name } = area
    const own: Entry[] = []
    try {
      await inSlices(
        desiredOn(plane, area)?.all(read, config) ?? [],
        (entry) => plane.kinds.has(entry.kind) && own.push(entry),
      )
      await inSlices(own, (entry) => desired.push(entry))
    } catch (error) {
      unreadable.set(name, error instanceof Error ? error.message : String(error))
    }
  }
  const known = (name: string) => areas.has(name) && !unreadable.has(name)
  const observed: Entry[] = []
  await inSlices(await plane.observe(desired), (entry) => {
    if (known(entry.key.slice(0, entry.key.indexOf('/')))) observed.push(entry)
  })
  return { diff: await stepwise(compare(observed, desired)), unreadable }
}

/**
 * Carries out what `deviations` has just returned: all at once; when the kernel refuses that, area by area, so that what
 * it refuses to one does not keep another from being made good. @throws RepairRefused, UncertainOutcome
 */
export async function repair(plane: Plane, { diff, unreadable }: Deviations): Promise<Repairs> {
  const refused = new Map(unreadable)
  try {
    if (diff.length > 0) await plane.apply(diff, 'restore')
  } catch (error) {
    if (!(error instanceof KernelRefusal)) throw error
    for (const [area, why] of await repairByArea(plane, diff, error)) refused.set(area, why)
  }
  const waiting = new Set(plane.pending().map(({ key }) => key))
  const done: Repairs = { added: 0, changed: 0, removed: 0, areas: {} }
  await inSlices(diff, (passage) => {
    if (!refused.has(areaOf(passage)) && !waiting.has(passage.after?.key ?? '')) count(done, passage)
  })
  if (refused.size > 0) throw new RepairRefused(refused, done)
  return done
}

/** Returns the refusals by area. */
async function repairByArea(
  plane: Plane,
  diff: readonly Passage[],
  whole: KernelRefusal,
): Promise<Map<string, string>> {
  const parts = new Map<string, Passage[]>()
  for (const passage of diff) {
    const part = parts.get(areaOf(passage))
    if (part) part.push(passage)
    else parts.set(areaOf(passage), [passage])
  }
  const refused = new Map<string, string>()
  for (const [area, part] of parts) {
    try {
      if (parts.size === 1) throw whole
      await plane.apply(part, 'restore')
    } catch (error) {
      if (!(error instanceof KernelRefusal)) throw error
      refused.set(area, error.message)
    }
  }
  return refused
}

function count(repairs: Repairs, passage: Passage): void {
  const { before, after } = passage
  const ofArea = repairs.areas[areaOf(passage)] ?? { added: 0, changed: 0, removed: 0 }
  const change = before === undefined ? 'added' : after || isFrame(before) ? 'changed' : 'removed'
  ofArea[change]++
  repairs[change]++
  repairs.areas[areaOf(passage)] = ofArea
}
