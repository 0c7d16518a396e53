import { areaOf, type LinkEntry } from '../entries.ts'
import { getDetails, type LinkDetail } from '../link-detail.ts'
import { observedLink } from '../observed.ts'
import type { Scene } from './scene.ts'

/** A link of ours as it stands, and the far end if it is a pair. */
export interface Standing {
  detail: LinkDetail
  entry: LinkEntry
  far?: LinkDetail
  /** Name of the bridge that it is a port of, whoever put it in. */
  bridge?: string
}

/** The link of the entry's name; undefined when there is none that is of the entry's area. */
export async function standing(scene: Scene, { name, key }: LinkEntry): Promise<Standing | undefined> {
  const detail = await scene.fresh(name)
  if (detail === undefined || detail.area !== areaOf(key) || detail.farEnd) return undefined
  const near = [detail.other, detail.master].filter((index) => index !== undefined)
  const others = new Map<number, LinkDetail>()
  for (const other of await getDetails(scene.netlink, near)) if (other) others.set(other.index, other)
  const entry = observedLink(detail, (index) => others.get(index), scene.areas)
  const far = entry?.device.type === 'veth' && detail.other !== undefined ? others.get(detail.other) : undefined
  const bridge = detail.master === undefined ? undefined : others.get(detail.master)?.name
  return entry && { detail, entry, ...(far && { far }), ...(bridge !== undefined && { bridge }) }
}
