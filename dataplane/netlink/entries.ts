/**
 * Links, memberships, addresses, routes, policy rules and neighbours as keyed entries. Areas make them with the
 * functions below, which spell every field in one way and fill in what is left out; the driver makes them from the
 * kernel's dumps with the same functions, so both sides have equal keys.
 * All throw RangeError for a name, address or number that the kernel could not hold.
 */
import { RT_SCOPE_LINK, RT_SCOPE_UNIVERSE } from './address.ts'
import { confPlace, type DeviceConf } from './devconf.ts'
import { type Bond, completeDevice, type Device, type DeviceOptions } from './device.ts'
import { addressBytes, addressText, type IpVersion, macBytes, macText, parsePrefix } from './inet.ts'
import { linkName } from './link.ts'
import { RT_TABLE_MAIN } from './route.ts'
import type { RoutingRule } from './rule.ts'

export type NetlinkEntry = LinkEntry | MemberEntry | AddressEntry | RouteEntry | PolicyEntry | NeighbourEntry | FdbEntry
export const NETLINK_KINDS = ['link', 'member', 'address', 'route', 'policy', 'neighbour', 'fdb'] as const

/** A device that the agent makes. What is absent of `mtu` and `mac` is left to the kernel, whatever it is. */
export interface LinkEntry {
  kind: 'link'
  key: string
  name: string
  device: Device
  up: boolean
  mtu?: number
  mac?: string
  /** Bridge that it is a port of; absent is none, unless a `member` entry puts it into one. */
  master?: string
  /** As a port, it gets nothing from other isolated ports of its bridge. Absent: whatever it is. */
  isolated?: boolean
  /** Path below /proc/sys/net (`ipv4/conf/<name>/arp_announce`) and value. */
  sysctls: readonly (readonly [path: string, value: number])[]
  /** Observed entries only: every sysctl of the device. */
  seen?: DeviceConf
}

/** A device that the agent did not make, or not for this, and that it puts into a bridge (or a bond of its own). */
export interface MemberEntry {
  kind: 'member'
  key: string
  link: string
  bridge: string
  /** Of a bond, which takes only what is down and leaves it so: bring it up when it is released. */
  releaseUp?: boolean
}

export interface AddressEntry {
  kind: 'address'
  key: string
  link: string
  /** With its prefix length: `10.0.0.1/24`. */
  address: string
  noPrefixRoute: boolean
  /** RT_SCOPE_*: 0 global, 253 link, 254 host. */
  scope: number
  /** Moves between nodes: announced whenever it is put on. Desired entries only; the kernel does not tell. */
  floating?: true
}

export interface RouteEntry {
  kind: 'route'
  key: string
  destination: string
  type: 'unicast' | 'blackhole' | 'unreachable' | 'prohibit'
  gateway?: string
  /** Without one the kernel chooses by the gateway, when the route is made. */
  link?: string
  metric: number
  table: number
  /** RT_SCOPE_* */
  scope: number
  /** Address that the node itself sends from. */
  source?: string
  onlink: boolean
  /** Observed entries only: the link that a route with a gateway leads out by, asked for or not. */
  seen?: { link?: string }
}

export interface PolicyEntry extends RoutingRule {
  kind: 'policy'
  key: string
}

/** A permanent neighbour. */
export interface NeighbourEntry {
  kind: 'neighbour'
  key: string
  link: string
  address: string
  mac: string
}

/** Where a VXLAN device of ours sends frames for `mac`; for FLOOD, one of those who get what is for many or unknown. */
export interface FdbEntry {
  kind: 'fdb'
  key: string
  link: string
  mac: string
  vtep: string
}

export interface LinkFields {
  name: string
  device: DeviceOptions
  /** Default true. */
  up?: boolean
  mtu?: number
  mac?: string
  master?: string
  isolated?: boolean
  sysctls?: LinkEntry['sysctls']
}

export function link(area: string, fields: LinkFields): LinkEntry {
  const name = linkName(fields.name)
  for (const [path] of fields.sysctls ?? []) {
    if (!confPlace(path, name)) throw new RangeError(`not a setting of ${name} that netlink tells of: ${path}`)
  }
  const device = completeDevice(fields.device)
  if (device.type === 'veth') linkName(device.peer)
  return {
    kind: 'link',
    key: `${area}/link/${name}`,
    name,
    device,
    up: fields.up ?? true,
    ...(fields.mtu !== undefined && { mtu: fields.mtu }),
    ...(fields.mac !== undefined && { mac: canonicalMac(fields.mac) }),
    ...(fields.master !== undefined && { master: linkName(fields.master) }),
    ...(fields.isolated !== undefined && { isolated: fields.isolated }),
    sysctls: fields.sysctls ?? [],
  }
}

/** A bridge of the agent that is up, with what else a link may have. */
export function bridge(area: string, name: string, fields: Omit<LinkFields, 'name' | 'device'> = {}): LinkEntry {
  return link(area, { ...fields, name, device: { type: 'bridge' } })
}

/** A bond of the agent that is up. */
export function bond(area: string, name: string, mode: Bond['mode'], fields: { mtu?: number } = {}): LinkEntry {
  return link(area, { ...fields, name, device: { type: 'bond', mode } })
}

/** `port` is the name of a device, `master` that of a bridge, ours or not, or of a bond of ours. */
export function member(area: string, port: string, master: string, releaseUp = false): MemberEntry {
  const key = `${area}/member/${linkName(port)}`
  return { kind: 'member', key, link: port, bridge: linkName(master), ...(releaseUp && { releaseUp }) }
}

export interface AddressFields {
  link: string
  address: string
  /** Default false. */
  noPrefixRoute?: boolean
  /** Default 0 (global). */
  scope?: number
  /** See {@link AddressEntry}. Default false. */
  floating?: boolean
}

export function address(area: string, fields: AddressFields): AddressEntry {
  const { bytes, length } = parsePrefix(fields.address)
  const cidr = `${addressText(bytes)}/${length}`
  const { noPrefixRoute = false, scope = RT_SCOPE_UNIVERSE, floating = false } = fields
  const key = `${area}/address/${linkName(fields.link)}/${cidr}`
  const entry = { kind: 'address', key, link: fields.link, address: cidr, noPrefixRoute, scope } as const
  return floating ? { ...entry, floating } : entry
}

export interface RouteFields {
  /** Host bits are cleared. */
  destination: string
  gateway?: string
  link?: string
  /** Default 0; for IPv6, where 0 means that to the kernel, 1024. */
  metric?: number
  /** Default and 0: main. */
  table?: number
  /** Default `unicast`. */
  type?: RouteEntry['type']
  /** Default: link for an IPv4 unicast route without a gateway, else global. */
  scope?: number
  source?: string
  /** The gateway is a neighbour although no address of the link says so; needs `link`. */
  onlink?: boolean
}

export function route(area: string, fields: RouteFields): RouteEntry {
  const { version, text } = network(fields.destination)
  const { gateway, source, type = 'unicast', onlink = false } = fields
  const metric = version === 6 ? fields.metric || 1024 : (fields.metric ?? 0)
  const table = fields.table || RT_TABLE_MAIN
  const near = version === 4 && type === 'unicast' && gateway === undefined
  return {
    kind: 'route',
    key: `${area}/route/${table}/${text}/${metric}`,
    destination: text,
    type,
    metric,
    table,
    scope: version === 6 ? RT_SCOPE_UNIVERSE : (fields.scope ?? (near ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE)),
    onlink,
    ...(gateway !== undefined && { gateway: canonicalAddress(gateway) }),
    ...(fields.link !== undefined && { link: linkName(fields.link) }),
    ...(source !== undefined && { source: canonicalAddress(source) }),
  }
}

export interface PolicyFields extends Omit<RoutingRule, 'version'> {
  /** Default: that of `from` or `to`, else 4. */
  version?: IpVersion
}

/** A prefix of length 0 is the same as none, and a mark without a mask has all its bits. */
export function policy(area: string, fields: PolicyFields): PolicyEntry {
  const [from, to] = [fields.from, fields.to].map((prefix) => (prefix === undefined ? undefined : network(prefix)))
  const version = fields.version ?? from?.version ?? to?.version ?? 4
  if ([from, to].some((prefix) => prefix && prefix.version !== version)) {
    throw new RangeError(`a rule for IPv${version} cannot match ${fields.from ?? 'all'} to ${fields.to ?? 'all'}`)
  }
  const { priority, table, fwmark, iif, oif } = fields
  const matches = {
    ...(from && from.length > 0 && { from: from.text }),
    ...(to && to.length > 0 && { to: to.text }),
    ...(fwmark !== undefined && { fwmark, fwmask: fields.fwmask ?? 0xffffffff }),
    ...(iif !== undefined && { iif: linkName(iif) }),
    ...(oif !== undefined && { oif: linkName(oif) }),
  }
  const words = Object.entries(matches).map(([name, value]) => `${name}=${value}`)
  const key = `${area}/policy/${priority}/${version}/${[...words, `table=${table}`].join(',')}`
  return { kind: 'policy', key, version, priority, table, ...matches }
}

export interface NeighbourFields {
  link: string
  address: string
  mac: string
}

export function neighbour(area: string, fields: NeighbourFields): NeighbourEntry {
  const text = canonicalAddress(fields.address)
  const key = `${area}/neighbour/${linkName(fields.link)}/${text}`
  return { kind: 'neighbour', key, link: fields.link, address: text, mac: canonicalMac(fields.mac) }
}

export function forwarding(area: string, fields: Omit<FdbEntry, 'kind' | 'key'>): FdbEntry {
  const [mac, vtep] = [canonicalMac(fields.mac), canonicalAddress(fields.vtep)]
  return { kind: 'fdb', key: `${area}/fdb/${linkName(fields.link)}/${mac}/${vtep}`, link: fields.link, mac, vtep }
}

/** `l2` of `l2/link/br1`. */
export function areaOf(key: string): string {
  return key.slice(0, key.indexOf('/'))
}

/** What the kernel tells two entries apart by: the key without the area, since two areas cannot both have it. */
export function identityOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

export function isNetlink(entry: { kind: string }): entry is NetlinkEntry {
  return (NETLINK_KINDS as readonly string[]).includes(entry.kind)
}

/** Links that an entry is nothing without: its own bridge, the device it is on. */
export function linksOf(entry: NetlinkEntry): string[] {
  switch (entry.kind) {
    case 'link': {
      const underlay = entry.device.type === 'vxlan' ? entry.device.underlay : undefined
      return [entry.master, underlay].filter((name) => name !== undefined)
    }
    case 'member':
      return [entry.link, entry.bridge]
    case 'route': {
      const link = entry.link ?? entry.seen?.link
      return link === undefined ? [] : [link]
    }
    case 'policy':
      return []
    default:
      return [entry.link]
  }
}

function network(prefix: string): { version: IpVersion; text: string; length: number } {
  const { version, bytes, length } = parsePrefix(prefix)
  const masked = bytes.map((byte, at) => byte & (0xff00 >> Math.min(8, Math.max(0, length - at * 8))))
  return { version, text: `${addressText(masked)}/${length}`, length }
}

function canonicalAddress(text: string): string {
  return addressText(addressBytes(text))
}

function canonicalMac(text: string): string {
  // Six bytes are always a MAC.
  return macText(macBytes(text)) ?? text
}
