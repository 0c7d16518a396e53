/**
 * Where a VXLAN device sends frames. The kernel does not say who made an entry, but the device does: what somebody made on
 * a device of ours is ours, what the kernel learned is nobody's.
 */
import { areaOf, type FdbEntry } from '../entries.ts'
import { addFdb, deleteFdb, type FdbRow, FLOOD, listFdb } from '../fdb.ts'
import type { LinkDetail } from '../link-detail.ts'
import type { Message } from '../wire.ts'
import { foreign, noSuchLink, type Refused } from './refusal.ts'
import type { Scene } from './scene.ts'
import type { Step } from './steps.ts'

export function addsFdb(scene: Scene, entry: FdbEntry): Step | Refused {
  const link = scene.link(entry.link)
  if (link === undefined) return noSuchLink(entry, entry.link)
  if (!isOurs(link, entry)) return foreign(entry)
  const messages = [addFdb({ ...entry, index: link.index })]
  return { entry, rounds: [{ messages, undo: () => on(scene, entry, deleteFdb) }] }
}

/**
 * Whoever is no longer sent what is for many was a peer and is none: what was learned to be behind it goes, too. Reads the
 * entries of each device that loses a peer.
 */
export async function removesFdb(scene: Scene, entries: readonly FdbEntry[]): Promise<Step[]> {
  const learned = new Map<string, FdbRow[]>()
  for (const name of new Set(entries.flatMap(({ mac, link }) => (mac === FLOOD ? link : [])))) {
    const index = scene.link(name)?.index
    if (index === undefined) continue
    learned.set(
      name,
      (await listFdb(scene.netlink, index)).filter(({ permanent }) => !permanent),
    )
  }
  return entries.flatMap((entry) => {
    const link = scene.link(entry.link)
    if (link === undefined || !isOurs(link, entry)) return []
    const behind = entry.mac === FLOOD ? (learned.get(entry.link) ?? []).filter(({ vtep }) => vtep === entry.vtep) : []
    const messages = [deleteFdb({ ...entry, index: link.index }), ...behind.map(deleteFdb)]
    return { entry, rounds: [{ messages, undo: () => on(scene, entry, addFdb) }] }
  })
}

/** With the link as it is then; where that is gone there is nothing to do. */
function on(scene: Scene, entry: FdbEntry, message: (to: Omit<FdbRow, 'permanent'>) => Message): Message[] {
  const index = scene.link(entry.link)?.index
  return index === undefined ? [] : [message({ ...entry, index })]
}

const isOurs = ({ area, kind, farEnd }: LinkDetail, { key }: FdbEntry): boolean =>
  kind === 'vxlan' && !farEnd && area === areaOf(key)
