/**
 * Devices put into a bridge. The path cost of the port, which means nothing while the bridge speaks no spanning tree,
 * is set to the owner's number and tells those that the agent put in from those that somebody else did: it lives as
 * long as the membership. A bond has no such mark; there, all members of a bond that is ours are ours.
 */
import type { MemberEntry } from '../entries.ts'
import { setLink } from '../link.ts'
import { type LinkDetail, setPortCost } from '../link-detail.ts'
import type { Message } from '../wire.ts'
import { noSuchLink, type Refused } from './refusal.ts'
import type { Scene } from './scene.ts'
import type { Round, Step } from './steps.ts'

/** Puts in, or moves from one bridge to another. `before`: where the agent had put it. */
export function joins(scene: Scene, entry: MemberEntry, before: MemberEntry | undefined): Step | Refused {
  const [port, bridge] = [scene.link(entry.link), scene.link(entry.bridge)]
  if (port === undefined) return noSuchLink(entry, entry.link)
  if (bridge === undefined) return noSuchLink(entry, entry.bridge)
  if (bridge.kind !== 'bridge' && bridge.kind !== 'bond') {
    return { entry, code: 'EINVAL', text: `interface ${entry.bridge} is not a bridge` }
  }
  const from = before && scene.link(before.bridge)
  if (port.master !== undefined && !(from && isIn(scene, port, from, entry))) {
    const text = `interface ${entry.link} is a port already, and the agent did not put it there`
    return { entry, code: 'EBUSY', text }
  }
  const back = () => (before && from ? enslave(scene, before) : release(scene, entry))
  const into: Round = { messages: enslave(scene, entry), undo: back }
  // A bond takes only what is down, and brings it up itself.
  if (bridge.kind !== 'bond' || !port.up) return { entry, before, rounds: [into] }
  const down = { messages: [setLink(port.index, { up: false })], undo: () => [setLink(port.index, { up: true })] }
  return { entry, before, rounds: [down, into] }
}

/** Undefined when it is not there any more, or somebody else has put it somewhere since. */
export function leaves(scene: Scene, entry: MemberEntry): Step | undefined {
  const [port, bridge] = [scene.link(entry.link), scene.link(entry.bridge)]
  if (port === undefined || bridge === undefined || !isIn(scene, port, bridge, entry)) return undefined
  return { entry, rounds: [{ messages: release(scene, entry), undo: () => enslave(scene, entry) }] }
}

function isIn(scene: Scene, port: LinkDetail, bridge: LinkDetail, entry: MemberEntry): boolean {
  return port.master === bridge.index && (bridge.kind === 'bond' || port.cost === scene.owner(entry))
}

/** Both links must be known to the scene; where one is gone there is nothing to do. */
function enslave(scene: Scene, entry: MemberEntry): Message[] {
  const [port, bridge] = [scene.link(entry.link), scene.link(entry.bridge)]
  if (port === undefined || bridge === undefined) return []
  const into = setLink(port.index, { master: bridge.index })
  return bridge.kind === 'bond' ? [into] : [into, setPortCost(port.index, scene.owner(entry))]
}

function release(scene: Scene, entry: MemberEntry): Message[] {
  const port = scene.link(entry.link)
  return port ? [setLink(port.index, { master: 0 })] : []
}
