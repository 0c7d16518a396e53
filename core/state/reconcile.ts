/**
 * Brings the kernel to what is committed: observe what is ours, compare with everything desired, remove what is ours and
 * undesired, add the rest. Objects of areas that are off are left as they are; what is not ours is never looked at.
 */
import type { Entry, Passage } from '../../dataplane/entry.ts'
import { passages } from '../../dataplane/entry.ts'
import type { Plane } from '../../dataplane/plane.ts'
import type { Db, LoadedArea } from '../area.ts'
import type { Config } from '../config.ts'
import { inSlices } from '../slices.ts'

export interface Repair {
  added: number
  changed: number
  removed: number
}

export interface ReconcileParts {
  plane: Plane
  read: Db
  config: Config
  areas: ReadonlyMap<string, LoadedArea>
}

/** Call it while no mutation runs. */
export async function reconcile({ plane, read, config, areas }: ReconcileParts): Promise<Repair> {
  const observed = (await plane.observe()).filter(({ key }) => areas.has(key.slice(0, key.indexOf('/'))))
  const desired: Entry[] = []
  for (const area of areas.values()) {
    await inSlices(area.desired?.all(read, config) ?? [], (entry) => desired.push(entry))
  }
  const diff = passages(observed, desired)
  if (diff.length > 0) await plane.apply(diff)
  return count(diff)
}

function count(diff: readonly Passage[]): Repair {
  const changed = diff.filter(({ before, after }) => before && after).length
  const added = diff.filter(({ before }) => !before).length
  return { added, changed, removed: diff.length - added - changed }
}
