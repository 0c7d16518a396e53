/** Takes off the classifier that an earlier agent has left attached, for an agent that judges by nft. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openLink } from '../link.ts'
import { removeClassifier } from './open.ts'

/**
 * When it resolves no packet meets the classifier any more: a link whose pin is only removed goes off its hook some time
 * later, when nft may mark nothing for it any longer.
 */
export async function takeOffClassifier(root: string): Promise<void> {
  const pins = readdirSync(join(root, 'firewall'), { recursive: true, withFileTypes: true })
  for (const pin of pins) {
    if (!pin.isDirectory() && pin.parentPath.endsWith('/links')) await openLink(join(pin.parentPath, pin.name)).detach()
  }
  await removeClassifier(root)
}
