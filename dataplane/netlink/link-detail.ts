/** What a link's message tells beyond link.ts: whose it is, which bridge took it, its kind's settings, its sysctls. */
import { KernelError } from '../libc.ts'
import { Attributes, Payload } from './attribute.ts'
import { type DeviceConf, decodeConf } from './devconf.ts'
import { AF_INET } from './inet.ts'
import { askLink, decodeLink, dumpLinks, type Link, type LinkRef, type LinkSettings, RTM_NEWLINK } from './link.ts'
import type { Netlink } from './socket.ts'
import type { Message } from './wire.ts'

const IFLA_LINK = 5
const IFLA_LINKINFO = 18
const IFLA_IFALIAS = 20
const IFLA_AF_SPEC = 26
const IFLA_GROUP = 27
const IFLA_LINK_NETNSID = 37
const IFLA_MAX_MTU = 51
const IFLA_INFO_KIND = 1
const IFLA_INFO_DATA = 2
const IFLA_INFO_SLAVE_KIND = 4
const IFLA_INFO_SLAVE_DATA = 5
const IFLA_BRPORT_COST = 3
const IFLA_BRPORT_ISOLATED = 33
const IFLA_INET_CONF = 1
const IPV4_DEVCONF_PROMOTE_SECONDARIES = 20
/** struct ifinfomsg */
const HEADER_SIZE = 16
/** linux/if_arp.h */
const ARPHRD_ETHER = 1

/** Text that marks a link as made by the agent, with the area that it is of; the far end of a pair says so. */
const MARK = /^stratum:([a-z0-9-]+)( peer)?$/

export interface LinkDetail extends Link {
  /** Area that made it, as its alias says; absent for what is not ours. */
  area?: string
  /** It is the far end of a pair that is ours. */
  farEnd: boolean
  /** Its frames are Ethernet's. */
  ethernet: boolean
  /** The largest MTU that it can have; absent where nothing bounds it. */
  maxMtu?: number
  /** Index of a pair's other end, when that is in the same namespace; of the underlay for tunnels. */
  other?: number
  /** IFLA_INFO_DATA: settings of its kind. */
  data?: Buffer
  /** Path cost of a bridge port: the owner's number where the agent put it in. */
  cost?: number
  /** Of a bridge port: it gets nothing from other isolated ones. */
  isolated?: boolean
  conf: DeviceConf
}

/** Alias of a link of `area`. */
export function markOf(area: string, farEnd = false): string {
  return `stratum:${area}${farEnd ? ' peer' : ''}`
}

/** All links. Rejects as {@link Netlink.dump} does. */
export function listDetails(netlink: Netlink): Promise<LinkDetail[]> {
  return dumpLinks(netlink, decodeDetail)
}

/** The links there are of those asked for, in the same order. Rejects with {@link KernelError}. */
export async function getDetails(netlink: Netlink, refs: readonly LinkRef[]): Promise<(LinkDetail | undefined)[]> {
  if (refs.length === 0) return []
  const answers = await netlink.askEach(refs.map(askLink))
  return answers.map((answer) => {
    if (!(answer instanceof KernelError)) return decodeDetail(answer.payload)
    if (answer.code === 'ENODEV') return undefined
    throw answer
  })
}

/** Reads the payload of RTM_NEWLINK. Throws {@link WireError}. */
export function decodeDetail(payload: Buffer): LinkDetail {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const info = attributes.nested(IFLA_LINKINFO)
  const [, area, peer] = MARK.exec(attributes.text(IFLA_IFALIAS) ?? '') ?? []
  const other = attributes.bytes(IFLA_LINK_NETNSID) ? undefined : attributes.u32(IFLA_LINK)
  const data = info?.bytes(IFLA_INFO_DATA)
  const bridged = info?.text(IFLA_INFO_SLAVE_KIND) === 'bridge'
  const port = bridged ? info?.nested(IFLA_INFO_SLAVE_DATA) : undefined
  const cost = port?.u32(IFLA_BRPORT_COST)
  // 0 is none.
  const maxMtu = attributes.u32(IFLA_MAX_MTU) || undefined
  return {
    ...decodeLink(payload),
    farEnd: peer !== undefined,
    ethernet: payload.readUInt16LE(2) === ARPHRD_ETHER,
    ...(maxMtu !== undefined && { maxMtu }),
    conf: decodeConf(attributes.nested(IFLA_AF_SPEC)),
    ...(area !== undefined && { area }),
    ...(other !== undefined && { other }),
    // The message lies in a buffer that the next one overwrites.
    ...(data && { data: Buffer.from(data) }),
    ...(cost !== undefined && { cost }),
    ...(port && { isolated: port.u8(IFLA_BRPORT_ISOLATED) === 1 }),
  }
}

/** Changes all links of a group, and only those. */
export function changeGroup(group: number, { alias = '' }: Pick<LinkSettings, 'alias'>): Message {
  const payload = new Payload().raw(header(0)).u32(IFLA_GROUP, group).text(IFLA_IFALIAS, alias)
  return { type: RTM_NEWLINK, flags: 0, payload: payload.finish() }
}

/** Changes settings of a link's kind. */
export function changeKind(index: number, kind: string, data: (payload: Payload) => void): Message {
  const payload = new Payload().raw(header(index)).nest(IFLA_LINKINFO, (info) => {
    info.text(IFLA_INFO_KIND, kind).nest(IFLA_INFO_DATA, data)
  })
  return { type: RTM_NEWLINK, flags: 0, payload: payload.finish() }
}

/** Sets the path cost of a bridge port, which means nothing while the bridge speaks no spanning tree. */
export function setPortCost(index: number, cost: number): Message {
  return changePort(index, (data) => data.u32(IFLA_BRPORT_COST, cost))
}

/** Keeps a bridge port from others that are isolated, or no longer. */
export function setIsolated(index: number, isolated: boolean): Message {
  return changePort(index, (data) => data.u8(IFLA_BRPORT_ISOLATED, Number(isolated)))
}

function changePort(index: number, settings: (payload: Payload) => void): Message {
  const payload = new Payload().raw(header(index)).nest(IFLA_LINKINFO, (info) => {
    info.text(IFLA_INFO_SLAVE_KIND, 'bridge').nest(IFLA_INFO_SLAVE_DATA, settings)
  })
  return { type: RTM_NEWLINK, flags: 0, payload: payload.finish() }
}

/** Whether secondary IPv4 addresses stay when the first one of their subnet is removed. */
export function promotesSecondaries({ conf }: LinkDetail): boolean {
  return conf.ipv4[IPV4_DEVCONF_PROMOTE_SECONDARIES - 1] === 1
}

export function setPromoteSecondaries(index: number, on: boolean): Message {
  const payload = new Payload().raw(header(index)).nest(IFLA_AF_SPEC, (families) => {
    families.nest(AF_INET, (inet) =>
      inet.nest(IFLA_INET_CONF, (conf) => conf.u32(IPV4_DEVCONF_PROMOTE_SECONDARIES, Number(on))),
    )
  })
  return { type: RTM_NEWLINK, flags: 0, payload: payload.finish() }
}

function header(index: number): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeInt32LE(index, 4)
  return bytes
}
