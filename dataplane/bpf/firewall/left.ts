/** Takes off the classifier that an earlier agent has left attached, for an agent that judges by nft. */
import { join } from 'node:path'
import { detachPinned } from '../attach/attachments.ts'
import { layouts, pinsIn } from '../bpffs.ts'
import { removeClassifier } from './open.ts'

/**
 * When it resolves no packet meets the classifier any more: a link whose pin is only removed goes off its hook some time
 * later, when nft may mark nothing for it any longer.
 */
export async function takeOffClassifier(root: string): Promise<void> {
  const pins = join(root, 'firewall')
  for (const layout of layouts(pins)) {
    const links = join(pins, `v${layout}`, 'links')
    for (const name of pinsIn(links)) await detachPinned(join(links, name))
  }
  await removeClassifier(root)
}
