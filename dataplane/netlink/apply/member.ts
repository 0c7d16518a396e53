/**
 * Devices put into a bridge. The path cost of the port, which means nothing while the bridge speaks no spanning tree,
 * is set to the owner's number and tells those that the agent put in from those that somebody else did: it lives as
 * long as the membership. A bond has no such mark; there, all members of a bond that is ours are ours. A bond takes only
 * what is down and brings it up itself; what it releases it leaves down. Taking a device down costs it its routes, also
 * those that are not ours: so what no bond takes is refused before.
 */
import type { MemberEntry } from '../entries.ts'
import { type LinkSettings, setLink } from '../link.ts'
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
  const unfit = bridge.kind === 'bond' ? unfitFor(port, bridge) : undefined
  if (unfit)
    return { entry, code: 'EINVAL', text: `interface ${entry.link} cannot be in bond ${entry.bridge}: ${unfit}` }
  const back = () => (before && from ? enslave(scene, before) : set(scene, entry, { master: 0 }))
  const into: Round = { messages: enslave(scene, entry), undo: back }
  if (bridge.kind !== 'bond' || !port.up) return { entry, before, rounds: [into] }
  // The routes by it go with it, and come back where they are ours.
  scene.disturbed.add(entry.link)
  const up = (value: boolean) => set(scene, entry, { up: value })
  // In one send, so that no kill leaves it down and out. It is down from the first message on, which is what is taken back.
  return {
    entry,
    before,
    rounds: [{ messages: [...up(false), ...into.messages], undo: () => [...back(), ...up(true)] }],
  }
}

/** Why a bond does not take a device, as far as that shows beforehand; undefined when it may. */
function unfitFor({ ethernet, maxMtu }: LinkDetail, { mtu }: LinkDetail): string | undefined {
  if (!ethernet) return 'it is no Ethernet device'
  if (maxMtu === undefined || maxMtu >= mtu) return undefined
  return `it takes an MTU of at most ${maxMtu}, and that of the bond is ${mtu}: give the bond a smaller one`
}

/** Undefined when it is not there any more, or somebody else has put it somewhere since. */
export function leaves(scene: Scene, entry: MemberEntry): Step | undefined {
  const [port, bridge] = [scene.link(entry.link), scene.link(entry.bridge)]
  if (port === undefined || bridge === undefined || !isIn(scene, port, bridge, entry)) return undefined
  const up = (value: boolean) => (entry.releaseUp ? set(scene, entry, { up: value }) : [])
  const messages = [...set(scene, entry, { master: 0 }), ...up(true)]
  // What was brought up must go down again before a bond takes it back.
  return { entry, rounds: [{ messages, undo: () => [...up(false), ...enslave(scene, entry)] }] }
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

function set(scene: Scene, { link }: MemberEntry, settings: LinkSettings): Message[] {
  const port = scene.link(link)
  return port ? [setLink(port.index, settings)] : []
}
