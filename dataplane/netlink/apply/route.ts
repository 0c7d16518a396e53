/** Routes. The protocol, which is the owner's number, tells ours, and every deletion names it. */
import { linksOf, type RouteEntry } from '../entries.ts'
import { parsePrefix } from '../inet.ts'
import { addRoute, appendRoute, deleteRoute, type NewRoute } from '../route.ts'
import type { Message } from '../wire.ts'
import { noSuchLink, type Refused } from './refusal.ts'
import type { Scene } from './scene.ts'
import type { Step } from './steps.ts'

/** Index of the loopback in every namespace. */
const LOOPBACK = 1

export function addsRoute(scene: Scene, entry: RouteEntry): Step | Refused {
  const route = asRoute(scene, entry)
  if (route === undefined) return noSuchLink(entry, entry.link ?? '')
  return { entry, rounds: [{ messages: [addRoute(route)], undo: again(scene, entry, deletion) }] }
}

/** Undefined when its link is gone, which took it along. */
export function removesRoute(scene: Scene, entry: RouteEntry): Step | undefined {
  const route = asRoute(scene, entry)
  return route && { entry, rounds: [{ messages: [deletion(route)], undo: again(scene, entry, addRoute) }] }
}

/**
 * Another route for the same destination, table and metric. The new one is put behind the old one, which then is
 * removed: at no moment there is none, and what somebody else put in the same place meanwhile is not overwritten.
 */
export function replacesRoute(scene: Scene, entry: RouteEntry, before: RouteEntry): Step | Refused {
  const [route, old] = [asRoute(scene, entry), asRoute(scene, before)]
  if (route === undefined) return noSuchLink(entry, entry.link ?? '')
  if (old === undefined) return addsRoute(scene, entry)
  // It may have gone with what this change has removed.
  const strict = scene.disturbed.size === 0
  const remove = { messages: [deletion(old)], undo: again(scene, before, appendRoute), strict }
  const undo = again(scene, entry, deletion)
  if (cannotStandTogether(entry, before)) {
    return { entry, before, rounds: [remove, { messages: [addRoute(route)], undo }] }
  }
  return { entry, before, rounds: [{ messages: [appendRoute(route)], undo }, remove] }
}

/** The same for the route as its link is then; where that is gone there is nothing to do. */
function again(scene: Scene, entry: RouteEntry, message: (route: NewRoute) => Message): () => Message[] {
  return () => {
    const route = asRoute(scene, entry)
    return route ? [message(route)] : []
  }
}

/**
 * IPv6 takes no second route by the same next hop. And where the new one has no gateway, a deletion of it would remove
 * the old one, which is the first by that link.
 */
function cannotStandTogether(entry: RouteEntry, before: RouteEntry): boolean {
  if (isIpv4(entry) || entry.type !== 'unicast' || before.type !== 'unicast') return false
  const [link, old] = [linksOf(entry)[0], linksOf(before)[0]]
  const apart = link !== undefined && old !== undefined && link !== old
  return !apart && (entry.gateway === undefined || entry.gateway === before.gateway)
}

/** IPv6 routes that lead nowhere are told apart from others only by the loopback, by which they lead. */
function deletion(route: NewRoute): Message {
  const nowhere = route.type !== 'unicast' && parsePrefix(route.dst).version === 6
  return deleteRoute(nowhere ? { ...route, oif: LOOPBACK } : route)
}

const isIpv4 = ({ destination }: RouteEntry): boolean => parsePrefix(destination).version === 4

/** Undefined when its link does not exist. */
function asRoute(scene: Scene, entry: RouteEntry): NewRoute | undefined {
  const { destination: dst, gateway, metric, table, type, scope, source: prefsrc, onlink } = entry
  const [name] = linksOf(entry)
  const oif = name === undefined ? undefined : scene.link(name)?.index
  if (name !== undefined && oif === undefined) return undefined
  return {
    dst,
    metric,
    table,
    type,
    scope,
    onlink,
    protocol: scene.owner(entry),
    ...(gateway !== undefined && { gateway }),
    ...(oif !== undefined && { oif }),
    ...(prefsrc !== undefined && { prefsrc }),
  }
}
