/** What the kernel tells → entries, by the functions that areas make theirs with. Undefined is: not ours. */
import type { Address } from './address.ts'
import { Attributes } from './attribute.ts'
import { type Device, decodeDevice } from './device.ts'
import {
  type AddressEntry,
  address,
  type FdbEntry,
  forwarding,
  type LinkEntry,
  link,
  type MemberEntry,
  member,
  type NeighbourEntry,
  neighbour,
  type PolicyEntry,
  policy,
  type RouteEntry,
  route,
} from './entries.ts'
import type { FdbRow } from './fdb.ts'
import type { LinkDetail } from './link-detail.ts'
import type { Neighbour } from './neighbour.ts'
import type { Route } from './route.ts'
import type { ListedRule } from './rule.ts'

/** Owner's number → area. */
export type Areas = ReadonlyMap<number, string>

/** Looks up another link by its index. */
export type FindLink = (index: number) => LinkDetail | undefined
/** Looks up what a link is called. */
export type FindName = (index: number) => string | undefined

export function observedLink(detail: LinkDetail, find: FindLink, areas: Areas): LinkEntry | undefined {
  if (detail.area === undefined || detail.farEnd || ![...areas.values()].includes(detail.area)) return undefined
  const device = deviceOf(detail, find)
  if (device === undefined) return undefined
  const peer = device.type === 'veth' && detail.other !== undefined ? find(detail.other) : undefined
  // Put in by a `member` entry, of whatever area: then that one tells of it.
  const marked = detail.cost !== undefined && areas.has(detail.cost)
  const master = detail.master === undefined || marked ? undefined : (find(detail.master)?.name ?? `#${detail.master}`)
  return {
    ...link(detail.area, { name: detail.name, device, mtu: detail.mtu }),
    up: detail.up && (peer?.up ?? true),
    ...(detail.mac !== undefined && { mac: detail.mac }),
    ...(master !== undefined && { master, isolated: detail.isolated === true }),
    seen: detail.conf,
  }
}

function deviceOf({ kind, data, other }: LinkDetail, find: FindLink): Device | undefined {
  const attributes = data && new Attributes(data, 0)
  const device = decodeDevice(kind, attributes, { name: (index) => find(index)?.name }, other)
  const peerMac = device?.type === 'veth' && other !== undefined ? find(other)?.mac : undefined
  return device?.type === 'veth' && peerMac !== undefined ? { ...device, peerMac } : device
}

export function observedMember(detail: LinkDetail, find: FindLink, areas: Areas): MemberEntry | undefined {
  const bridge = detail.master === undefined ? undefined : find(detail.master)
  if (bridge === undefined) return undefined
  const area = bridge.kind === 'bond' ? bridge.area : detail.cost === undefined ? undefined : areas.get(detail.cost)
  // What a bond releases it leaves down; it was most likely up before.
  return area === undefined ? undefined : member(area, detail.name, bridge.name, bridge.kind === 'bond')
}

export function observedAddress(found: Address, nameOf: FindName, areas: Areas): AddressEntry | undefined {
  const { index, cidr, protocol, scope, noPrefixRoute = false } = found
  const [area, on] = [areas.get(protocol), nameOf(index)]
  if (area === undefined || on === undefined) return undefined
  return address(area, { link: on, address: cidr, scope, noPrefixRoute })
}

export function observedRoute(found: Route, nameOf: FindName, areas: Areas): RouteEntry | undefined {
  const { dst, type, metric = 0, table, gateway, prefsrc, scope = 0, onlink = false } = found
  const area = areas.get(found.protocol)
  if (area === undefined || !isMade(type)) return undefined
  // IPv6 shows routes that lead nowhere as routes by the loopback.
  const out = type === 'unicast' && found.oif !== undefined ? nameOf(found.oif) : undefined
  const entry = route(area, {
    destination: dst,
    metric,
    table,
    type,
    scope,
    onlink,
    ...(gateway !== undefined && { gateway }),
    ...(gateway === undefined && out !== undefined && { link: out }),
    ...(prefsrc !== undefined && { source: prefsrc }),
  })
  return { ...entry, seen: out === undefined ? {} : { link: out } }
}

function isMade(type: Route['type']): type is RouteEntry['type'] {
  return type === 'unicast' || type === 'blackhole' || type === 'unreachable' || type === 'prohibit'
}

export function observedPolicy({ protocol, ...rule }: ListedRule, areas: Areas): PolicyEntry | undefined {
  const area = areas.get(protocol)
  return area === undefined ? undefined : policy(area, rule)
}

export function observedNeighbour(found: Neighbour, nameOf: FindName, areas: Areas): NeighbourEntry | undefined {
  const { index, address: text, mac, state, protocol = 0 } = found
  const [area, on] = [areas.get(protocol), nameOf(index)]
  if (area === undefined || on === undefined || mac === undefined || state !== 'permanent') return undefined
  return neighbour(area, { link: on, address: text, mac })
}

/** `on` is the device that the entry is of. */
export function observedForwarding({ mac, vtep, permanent }: FdbRow, on: LinkDetail): FdbEntry | undefined {
  return permanent && on.area !== undefined ? forwarding(on.area, { link: on.name, mac, vtep }) : undefined
}
