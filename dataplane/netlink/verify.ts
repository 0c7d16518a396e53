/** Looks at links of which something changed, whether they still stand as they shall. */
import type { Scene } from './apply/scene.ts'
import { standing } from './apply/standing.ts'
import type { LinkEntry, MemberEntry } from './entries.ts'
import type { Ledger } from './ledger.ts'
import { getDetails } from './link-detail.ts'
import { observedMember } from './observed.ts'
import { sameNetlink } from './sameness.ts'

/** True when one of the links, as a link of ours or as a member, is not as the ledger says. Rejects with {@link KernelError}. */
export async function standsOtherwise(scene: Scene, ledger: Ledger, names: readonly string[]): Promise<boolean> {
  for (const name of names) {
    for (const entry of [ledger.held(`link/${name}`), ledger.nearOf(name)]) {
      if (entry?.kind === 'link' && (await linkDiffers(scene, entry))) return true
    }
    const member = ledger.held(`member/${name}`)
    if (member?.kind === 'member' && (await memberDiffers(scene, member))) return true
  }
  return false
}

async function linkDiffers(scene: Scene, entry: LinkEntry): Promise<boolean> {
  const now = (await standing(scene, entry))?.entry
  if (now === undefined) return true
  if (entry.seen === undefined) return !sameNetlink(now, entry)
  // Of both all sysctls are known, some of which count up by themselves.
  const { seen: _, ...held } = entry
  const { seen: __, ...stands } = now
  return !sameNetlink(stands, held)
}

async function memberDiffers(scene: Scene, entry: MemberEntry): Promise<boolean> {
  const port = await scene.fresh(entry.link)
  const [bridge] = port?.master === undefined ? [] : await getDetails(scene.netlink, [port.master])
  const now = port && observedMember(port, () => bridge, scene.areas)
  return now === undefined || !sameNetlink(now, entry)
}
