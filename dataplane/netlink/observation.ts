/** Everything of ours that the kernel holds, by a dump of each kind. */
import { listAddresses } from './address.ts'
import type { NetlinkEntry } from './entries.ts'
import { listPermanent } from './fdb.ts'
import { type LinkDetail, listDetails } from './link-detail.ts'
import { listNeighbours } from './neighbour.ts'
import {
  type Areas,
  observedAddress,
  observedForwarding,
  observedLink,
  observedMember,
  observedNeighbour,
  observedPolicy,
  observedRoute,
} from './observed.ts'
import { listRoutes } from './route.ts'
import { listRules } from './rule.ts'
import type { Netlink } from './socket.ts'

export interface Observation {
  entries: NetlinkEntry[]
  /** All links, whoever made them. */
  links: LinkDetail[]
}

/** Rejects as {@link Netlink.dump} does. */
export async function observeAll(netlink: Netlink, areas: Areas): Promise<Observation> {
  const links = await listDetails(netlink)
  const byIndex = new Map(links.map((link) => [link.index, link]))
  const find = (index: number) => byIndex.get(index)
  const nameOf = (index: number) => byIndex.get(index)?.name
  const entries: (NetlinkEntry | undefined)[] = [
    ...links.flatMap((link) => [observedLink(link, find, areas), observedMember(link, find, areas)]),
  ]
  for (const address of await listAddresses(netlink)) entries.push(observedAddress(address, nameOf, areas))
  // One dump an owner: there may be a million routes of others, which the kernel then leaves out by itself.
  for (const protocol of areas.keys()) {
    for (const route of await listRoutes(netlink, { protocol })) entries.push(observedRoute(route, nameOf, areas))
  }
  for (const rule of await listRules(netlink)) entries.push(observedPolicy(rule, areas))
  for (const neighbour of await listNeighbours(netlink)) entries.push(observedNeighbour(neighbour, nameOf, areas))
  const own = new Set(areas.values())
  for (const link of links) {
    if (link.kind !== 'vxlan' || link.area === undefined || !own.has(link.area)) continue
    for (const found of await listPermanent(netlink, link.index)) entries.push(observedForwarding(found, link))
  }
  return { links, entries: entries.filter((entry) => entry !== undefined) }
}
