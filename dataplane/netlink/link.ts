/**
 * Links by rtnetlink (RTM_*LINK; linux/if_link.h): what exists, and messages that make, change and remove them.
 * A link is named by its index, or by its name where the kernel looks that up itself.
 */
import { KernelError } from '../libc.ts'
import { Attributes, Payload, WireError } from './attribute.ts'
import { macBytes, macText } from './inet.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from './wire.ts'

export const RTM_NEWLINK = 16
export const RTM_DELLINK = 17
const RTM_GETLINK = 18
const RTM_SETLINK = 19

const IFLA_ADDRESS = 1
const IFLA_IFNAME = 3
const IFLA_MTU = 4
const IFLA_LINK = 5
const IFLA_MASTER = 10
const IFLA_LINKINFO = 18
const IFLA_IFALIAS = 20
const IFLA_GROUP = 27
const IFLA_NET_NS_FD = 28
const IFLA_EXT_MASK = 29
const IFLA_LINK_NETNSID = 37
const IFLA_PARENT_DEV_NAME = 56
const IFLA_PARENT_DEV_BUS_NAME = 57
const IFLA_INFO_KIND = 1
const IFLA_INFO_DATA = 2
const VETH_INFO_PEER = 1
const IFLA_BR_STP_STATE = 5
const IFLA_BR_VLAN_FILTERING = 7
const IFLA_BR_MCAST_SNOOPING = 23
const IFLA_BR_NF_CALL_IPTABLES = 36
const IFLA_BR_NF_CALL_IP6TABLES = 37

const IFF_UP = 0x1
const IFF_RUNNING = 0x40
/** Counters are most of a link's message and nobody here reads them. */
const RTEXT_FILTER_SKIP_STATS = 8
/** struct ifinfomsg */
const HEADER_SIZE = 16
/** IFNAMSIZ of linux/if.h without the NUL. */
const MAX_NAME = 15

/** Links about to be removed together carry this group for that moment ("st" and a number). */
export const TEARDOWN_GROUP = 0x73740001

export interface Link {
  index: number
  name: string
  /** Lower case; absent where link-layer addresses are not 6 bytes. */
  mac?: string
  mtu: number
  /** Administratively up. */
  up: boolean
  /** Operational: up and with a carrier. The kernel reports a change of carrier up to a second late. */
  running: boolean
  /** Index of the bridge or bond that this is a port of. */
  master?: number
  /** Index of the link of this namespace that it lies on, as a VLAN, a macvlan and a tunnel do. */
  over?: number
  /** `veth`, `bridge`, `vxlan`, ...; absent for hardware and loopback. */
  kind?: string
  /** The device of a bus that this is the network interface of (Linux 5.14); absent for virtual links. */
  device?: { bus: string; name: string }
  /** 0 unless somebody set one. */
  group: number
}

/** An index, or the name of a link that exists. */
export type LinkRef = number | string

export interface LinkSettings {
  name?: string
  mac?: string
  mtu?: number
  up?: boolean
  /** Index of a bridge or bond; 0 releases the port. */
  master?: number
  group?: number
  /** Free text; the kernel ignores it in a creation. */
  alias?: string
  /** Open file of the network namespace to put the link into. */
  namespace?: number
}

type NamedLink = LinkSettings & { name: string }

export type VethPeer = Omit<NamedLink, 'up' | 'master'>

export interface BridgeSettings extends LinkSettings {
  /** Whether br_netfilter hands bridged frames to nftables; on many kernels the default is yes. */
  netfilter?: boolean
  stp?: boolean
  vlanFiltering?: boolean
  multicastSnooping?: boolean
}

/** All links of the socket's namespace. Rejects as {@link Netlink.dump} does. */
export function listLinks(netlink: Netlink): Promise<Link[]> {
  return dumpLinks(netlink, decodeLink)
}

/** As {@link listLinks}, with a reader of one's own for the payload of RTM_NEWLINK. */
export function dumpLinks<T>(netlink: Netlink, decode: (payload: Buffer) => T | undefined): Promise<T[]> {
  return netlink.dump(RTM_GETLINK, lean(header(0, {})).finish(), ({ type, payload }) =>
    type === RTM_NEWLINK ? decode(payload) : undefined,
  )
}

/** A question for {@link Netlink.ask}, answered by RTM_NEWLINK, or ENODEV when there is no such link. */
export function askLink(ref: LinkRef): Message {
  return { type: RTM_GETLINK, flags: 0, payload: lean(target(ref, {})).finish() }
}

/** One link; undefined when there is none. Rejects with {@link KernelError}. */
export async function getLink(netlink: Netlink, ref: LinkRef): Promise<Link | undefined> {
  try {
    const answers = await netlink.ask(askLink(ref))
    const link = answers.find(({ type }) => type === RTM_NEWLINK)
    return link && decodeLink(link.payload)
  } catch (error) {
    if (error instanceof KernelError && error.code === 'ENODEV') return undefined
    throw error
  }
}

/** Reads the payload of RTM_NEWLINK or RTM_DELLINK. Throws {@link WireError}. */
export function decodeLink(payload: Buffer): Link {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const flags = payload.readUInt32LE(8)
  const mac = macText(attributes.bytes(IFLA_ADDRESS))
  const master = attributes.u32(IFLA_MASTER)
  const kind = attributes.nested(IFLA_LINKINFO)?.text(IFLA_INFO_KIND)
  const name = attributes.text(IFLA_IFNAME)
  const device = deviceOf(attributes)
  // Of a pair it is the other end, and 0 is none.
  const over = kind === 'veth' || attributes.bytes(IFLA_LINK_NETNSID) ? 0 : attributes.u32(IFLA_LINK)
  if (name === undefined) throw new WireError('link without a name')
  return {
    index: payload.readInt32LE(4),
    name,
    mtu: attributes.u32(IFLA_MTU) ?? 0,
    up: (flags & IFF_UP) !== 0,
    running: (flags & IFF_RUNNING) !== 0,
    group: attributes.u32(IFLA_GROUP) ?? 0,
    ...(mac !== undefined && { mac }),
    ...(master !== undefined && { master }),
    ...(over && { over }),
    ...(kind !== undefined && { kind }),
    ...(device && { device }),
  }
}

function deviceOf(attributes: Attributes): Link['device'] {
  const [bus, name] = [attributes.text(IFLA_PARENT_DEV_BUS_NAME), attributes.text(IFLA_PARENT_DEV_NAME)]
  return bus === undefined || name === undefined ? undefined : { bus, name }
}

/**
 * Makes a link of any kind; `data` appends the kind's own attributes (IFLA_INFO_DATA).
 * EEXIST when the name is taken, ENOTSUP (`Unknown device type`) when the kernel lacks the kind.
 */
export function createLink(kind: string, settings: NamedLink, data?: (payload: Payload) => void): Message {
  const payload = header(0, settings)
  append(payload, settings)
  payload.nest(IFLA_LINKINFO, () => {
    payload.text(IFLA_INFO_KIND, kind)
    if (data) payload.nest(IFLA_INFO_DATA, data)
  })
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, payload: payload.finish() }
}

/** Makes a veth pair. The peer starts down (up before it knows its other end, it is ENOTCONN) and without a master. */
export function createVeth(settings: NamedLink, peer: VethPeer): Message {
  return createLink('veth', settings, (data) =>
    data.nest(VETH_INFO_PEER, () => {
      data.raw(linkHeader(0, {}))
      append(data, peer)
    }),
  )
}

export function createBridge(settings: BridgeSettings & { name: string }): Message {
  const { netfilter, stp, vlanFiltering, multicastSnooping } = settings
  return createLink('bridge', settings, (data) => {
    if (stp !== undefined) data.u32(IFLA_BR_STP_STATE, Number(stp))
    if (vlanFiltering !== undefined) data.u8(IFLA_BR_VLAN_FILTERING, Number(vlanFiltering))
    if (multicastSnooping !== undefined) data.u8(IFLA_BR_MCAST_SNOOPING, Number(multicastSnooping))
    if (netfilter === undefined) return
    data.u8(IFLA_BR_NF_CALL_IPTABLES, Number(netfilter))
    data.u8(IFLA_BR_NF_CALL_IP6TABLES, Number(netfilter))
  })
}

/** Changes what `settings` names and nothing else. A `name` renames; for that, `ref` must be an index. */
export function setLink(ref: LinkRef, settings: LinkSettings): Message {
  const payload = target(ref, settings)
  append(payload, settings)
  return { type: RTM_SETLINK, flags: 0, payload: payload.finish() }
}

/** ENODEV when it is gone already. Takes the kernel about 20 ms: for many see {@link deleteLinks}. */
export function deleteLink(ref: LinkRef): Message {
  return { type: RTM_DELLINK, flags: 0, payload: target(ref, {}).finish() }
}

/**
 * Removes many links at the price of one, by collecting them in {@link TEARDOWN_GROUP} and deleting that group.
 * Links that are gone already are no error. Rejects with {@link KernelError}, and before deleting anything when a
 * link that was not asked for is in the group.
 */
export async function deleteLinks(netlink: Netlink, indexes: readonly number[]): Promise<void> {
  if (indexes.length === 0) return
  const errors = await netlink.request(indexes.map((index) => setLink(index, { group: TEARDOWN_GROUP })))
  const refused = errors.find((error) => error && error.code !== 'ENODEV')
  if (refused) throw refused
  if (errors.every((error) => error)) return
  const asked = new Set(indexes)
  const foreign = (await listLinks(netlink)).find(({ index, group }) => group === TEARDOWN_GROUP && !asked.has(index))
  if (foreign) {
    throw new Error(
      `link ${foreign.name} is in group ${TEARDOWN_GROUP}, which stratum-node uses to delete links: move it to another group`,
    )
  }
  await netlink.command({
    type: RTM_DELLINK,
    flags: 0,
    payload: header(0, {}).u32(IFLA_GROUP, TEARDOWN_GROUP).finish(),
  })
}

function linkHeader(index: number, { up }: LinkSettings): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt32LE(up ? IFF_UP : 0, 8)
  bytes.writeUInt32LE(up === undefined ? 0 : IFF_UP, 12)
  return bytes
}

function header(index: number, settings: LinkSettings): Payload {
  return new Payload().raw(linkHeader(index, settings))
}

function target(ref: LinkRef, settings: LinkSettings): Payload {
  if (typeof ref === 'string') return header(0, settings).text(IFLA_IFNAME, linkName(ref))
  // Index 0 means "by the other attributes", in a deletion even "by group".
  if (!Number.isInteger(ref) || ref <= 0) throw new RangeError(`not a link index: ${ref}`)
  return header(ref, settings)
}

function lean(payload: Payload): Payload {
  return payload.u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
}

function append(payload: Payload, { name, mac, mtu, master, group, alias, namespace }: LinkSettings): void {
  if (name !== undefined) payload.text(IFLA_IFNAME, linkName(name))
  if (mac !== undefined) payload.bytes(IFLA_ADDRESS, macBytes(mac))
  if (mtu !== undefined) payload.u32(IFLA_MTU, mtu)
  if (master !== undefined) payload.u32(IFLA_MASTER, master)
  if (group !== undefined) payload.u32(IFLA_GROUP, group)
  if (alias !== undefined) payload.text(IFLA_IFALIAS, alias)
  if (namespace !== undefined) payload.u32(IFLA_NET_NS_FD, namespace)
}

/** Checks a name; the kernel would take `%d` in one as a request to number it. Throws RangeError. */
export function linkName(name: string): string {
  if (Buffer.byteLength(name) > MAX_NAME || !/^[^\s/:%]+$/.test(name) || name === '.' || name === '..') {
    throw new RangeError(`not a link name: ${JSON.stringify(name)}`)
  }
  return name
}
