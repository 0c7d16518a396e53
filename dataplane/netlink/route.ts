/**
 * Routes by rtnetlink (RTM_*ROUTE; linux/rtnetlink.h). Every route made here carries ROUTE_PROTOCOL unless told
 * otherwise, and a deletion names the protocol too, so it never takes a route that somebody else made.
 */
import { KernelError } from '../libc.ts'
import { ROUTE_PROTOCOL } from '../numbers.ts'
import { RT_SCOPE_LINK, RT_SCOPE_UNIVERSE } from './address.ts'
import { Attributes, Payload, WireError } from './attribute.ts'
import { AF_UNSPEC, addressBytes, addressFamily, addressText, type IpVersion, ipVersion, parsePrefix } from './inet.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from './wire.ts'

export const RTM_NEWROUTE = 24
export const RTM_DELROUTE = 25
const RTM_GETROUTE = 26

const RTA_DST = 1
const RTA_OIF = 4
const RTA_GATEWAY = 5
const RTA_PRIORITY = 6
const RTA_PREFSRC = 7
const RTA_TABLE = 15
const RTA_MARK = 16
const RTA_VIA = 18

/** The table that everybody uses. */
export const RT_TABLE_MAIN = 254
/** In a deletion: whatever the scope. */
const RT_SCOPE_NOWHERE = 255
const RTNH_F_ONLINK = 4
/** In a question: the route itself, not what follows from it. */
const RTM_F_FIB_MATCH = 0x2000
/** struct rtmsg */
const HEADER_SIZE = 12

/** rtm_type by position (RTN_*): what happens to a packet that the route matches. */
const TYPES = [
  'unspecified',
  'unicast',
  'local',
  'broadcast',
  'anycast',
  'multicast',
  'blackhole',
  'unreachable',
  'prohibit',
  'throw',
] as const
export type RouteType = (typeof TYPES)[number]

export interface Route {
  version: IpVersion
  /** `10.0.0.0/8`; the default route is `0.0.0.0/0` or `::/0`. */
  dst: string
  table: number
  /** rtm_protocol: who made it; ours is ROUTE_PROTOCOL. */
  protocol: number
  type: RouteType
  /** Absent is 0 for IPv4; IPv6 always has one. */
  metric?: number
  /** May be IPv6 on an IPv4 route (RFC 5549). Absent on multipath routes, whose next hops are not read. */
  gateway?: string
  /** Index of the outgoing link. */
  oif?: number
  prefsrc?: string
  /** RT_SCOPE_* of an IPv4 route; absent is 0 (universe), which every IPv6 route has. */
  scope?: number
  /** Set where the gateway is taken as reachable although no route says so. */
  onlink?: true
}

export interface NewRoute {
  dst: string
  /** Default: main. */
  table?: number
  /** Default: ours. */
  protocol?: number
  /** Default `unicast`. */
  type?: RouteType
  /** Default 0 for IPv4; the kernel makes 0 into 1024 for IPv6. */
  metric?: number
  gateway?: string
  oif?: number
  prefsrc?: string
  /** Take the gateway as reachable on `oif` although no route says so. */
  onlink?: boolean
  /** RT_SCOPE_*; default: link for a unicast route without a gateway, else universe. IPv6 has none. */
  scope?: number
}

export interface RouteFilter {
  version?: IpVersion
  table?: number
  protocol?: number
}

export interface Path {
  oif: number
  /** Absent is unicast: packets leave the node. */
  type?: RouteType
  gateway?: string
  prefsrc?: string
}

/** Routes of all tables, or those that `filter` names (the kernel filters). Rejects as {@link Netlink.dump} does. */
export async function listRoutes(netlink: Netlink, filter: RouteFilter = {}): Promise<Route[]> {
  const family = filter.version ? addressFamily(filter.version) : AF_UNSPEC
  const payload = new Payload().raw(header({ family, protocol: filter.protocol ?? 0, table: filter.table ?? 0 }))
  if (filter.table !== undefined) payload.u32(RTA_TABLE, filter.table)
  try {
    return await netlink.dump(RTM_GETROUTE, payload.finish(), (message) => {
      const route = message.type === RTM_NEWROUTE ? decodeRoute(message.payload) : undefined
      return route && matches(route, filter) ? route : undefined
    })
  } catch (error) {
    // A table begins to exist with its first route (extack: "ipv4: FIB table does not exist").
    if (filter.table !== undefined && error instanceof KernelError && error.code === 'ENOENT') return []
    throw error
  }
}

/** Reads RTM_NEWROUTE or RTM_DELROUTE; undefined for families other than IP. Throws {@link WireError}. */
export function decodeRoute(payload: Buffer): Route | undefined {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const version = ipVersion(payload.readUInt8(0))
  if (version === undefined) return undefined
  const gateway = attributes.bytes(RTA_GATEWAY) ?? viaAddress(attributes.bytes(RTA_VIA))
  const prefsrc = attributes.bytes(RTA_PREFSRC)
  const metric = attributes.u32(RTA_PRIORITY)
  const oif = attributes.u32(RTA_OIF)
  const scope = payload.readUInt8(6)
  const onlink = (payload.readUInt32LE(8) & RTNH_F_ONLINK) !== 0
  const address = attributes.bytes(RTA_DST) ?? Buffer.alloc(version === 4 ? 4 : 16)
  return {
    version,
    dst: `${addressText(address)}/${payload.readUInt8(1)}`,
    table: attributes.u32(RTA_TABLE) ?? payload.readUInt8(4),
    protocol: payload.readUInt8(5),
    type: TYPES[payload.readUInt8(7)] ?? 'unspecified',
    ...(metric !== undefined && { metric }),
    ...(gateway && { gateway: addressText(gateway) }),
    ...(oif !== undefined && { oif }),
    ...(prefsrc && { prefsrc: addressText(prefsrc) }),
    ...(scope !== RT_SCOPE_UNIVERSE && { scope }),
    ...(onlink && { onlink }),
  }
}

/** EEXIST when the table has a route with this destination and metric. */
export function addRoute(route: NewRoute): Message {
  return { type: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_EXCL, payload: encode(route, scopeOf(route)) }
}

/**
 * Makes the route, or puts it in the place of the one with the same destination, table and metric — whoever made
 * that: look first where others write too.
 */
export function replaceRoute(route: NewRoute): Message {
  return { type: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_REPLACE, payload: encode(route, scopeOf(route)) }
}

/**
 * Puts the route behind those with the same destination, table and metric, which stay: packets go on by the first
 * (IPv4) or by all of them (IPv6) until the others are removed. EEXIST when the very same is there.
 */
export function appendRoute(route: NewRoute): Message {
  return { type: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_APPEND, payload: encode(route, scopeOf(route)) }
}

/**
 * Removes the first route that has all the fields given, protocol included; one without `scope` or `gateway` may have any.
 * ESRCH when there is none.
 */
export function deleteRoute(route: NewRoute): Message {
  return { type: RTM_DELROUTE, flags: 0, payload: encode(route, route.scope ?? RT_SCOPE_NOWHERE) }
}

/**
 * Where the kernel would send a packet for `dst`, rules and marks considered. Rejects with {@link KernelError}:
 * ENETUNREACH or EHOSTUNREACH when nowhere, EINVAL for a blackhole, EACCES for a prohibited destination.
 */
export async function lookupRoute(
  netlink: Netlink,
  dst: string,
  options: { mark?: number; oif?: number } = {},
): Promise<Path> {
  const bytes = addressBytes(dst)
  const version = bytes.length === 4 ? 4 : 6
  const payload = new Payload()
    .raw(header({ family: addressFamily(version), length: bytes.length * 8 }))
    .bytes(RTA_DST, bytes)
  if (options.mark !== undefined) payload.u32(RTA_MARK, options.mark)
  if (options.oif !== undefined) payload.u32(RTA_OIF, options.oif)
  const answers = await netlink.ask({ type: RTM_GETROUTE, flags: 0, payload: payload.finish() })
  const route = answers.map((answer) => decodeRoute(answer.payload)).find((found) => found?.oif !== undefined)
  if (route?.oif === undefined) throw new WireError(`route to ${dst} without a link`)
  const { oif, type, gateway, prefsrc } = route
  return {
    oif,
    ...(type !== 'unicast' && { type }),
    ...(gateway !== undefined && { gateway }),
    ...(prefsrc !== undefined && { prefsrc }),
  }
}

/** The route by which {@link lookupRoute} finds its way. Rejects as that does. */
export async function matchedRoute(netlink: Netlink, dst: string): Promise<Route | undefined> {
  const bytes = addressBytes(dst)
  const family = addressFamily(bytes.length === 4 ? 4 : 6)
  const payload = new Payload()
    .raw(header({ family, length: bytes.length * 8, flags: RTM_F_FIB_MATCH }))
    .bytes(RTA_DST, bytes)
    .finish()
  const answers = await netlink.ask({ type: RTM_GETROUTE, flags: 0, payload })
  return answers.map((answer) => decodeRoute(answer.payload)).find((found) => found !== undefined)
}

function matches(route: Route, { version, table, protocol }: RouteFilter): boolean {
  return (
    (version === undefined || route.version === version) &&
    (table === undefined || route.table === table) &&
    (protocol === undefined || route.protocol === protocol)
  )
}

/** A route without a gateway leads to neighbours; the kernel checks gateways against the narrower scope. */
function scopeOf({ gateway, type = 'unicast', scope }: NewRoute): number {
  if (scope !== undefined) return scope
  return type === 'unicast' && gateway === undefined ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE
}

function encode(route: NewRoute, scope: number): Buffer {
  const { version, bytes, length } = parsePrefix(route.dst)
  const table = route.table ?? RT_TABLE_MAIN
  const type = TYPES.indexOf(route.type ?? 'unicast')
  const payload = new Payload()
    .raw(
      header({
        family: addressFamily(version),
        length,
        table,
        protocol: route.protocol ?? ROUTE_PROTOCOL,
        scope,
        type,
        flags: route.onlink ? RTNH_F_ONLINK : 0,
      }),
    )
    .u32(RTA_TABLE, table)
  if (length > 0) payload.bytes(RTA_DST, bytes)
  if (route.oif !== undefined) payload.u32(RTA_OIF, route.oif)
  if (route.metric !== undefined) payload.u32(RTA_PRIORITY, route.metric)
  if (route.prefsrc !== undefined) payload.bytes(RTA_PREFSRC, addressBytes(route.prefsrc))
  if (route.gateway !== undefined) appendGateway(payload, version, addressBytes(route.gateway))
  return payload.finish()
}

function appendGateway(payload: Payload, version: IpVersion, gateway: Buffer): void {
  const own: IpVersion = gateway.length === 4 ? 4 : 6
  if (own === version) {
    payload.bytes(RTA_GATEWAY, gateway)
    return
  }
  const family = Buffer.alloc(2)
  family.writeUInt16LE(addressFamily(own))
  payload.bytes(RTA_VIA, Buffer.concat([family, gateway]))
}

/** struct rtvia: family, then the address. */
function viaAddress(via: Buffer | undefined): Buffer | undefined {
  return via?.subarray(2)
}

interface Header {
  family: number
  length?: number
  table?: number
  protocol?: number
  scope?: number
  type?: number
  flags?: number
}

function header({ family, length = 0, table = 0, protocol = 0, scope = 0, type = 0, flags = 0 }: Header): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeUInt8(family, 0)
  bytes.writeUInt8(length, 1)
  // One byte for the table; larger numbers are in RTA_TABLE alone.
  bytes.writeUInt8(table < 256 ? table : 0, 4)
  bytes.writeUInt8(protocol, 5)
  bytes.writeUInt8(scope, 6)
  bytes.writeUInt8(type, 7)
  bytes.writeUInt32LE(flags, 8)
  return bytes
}
