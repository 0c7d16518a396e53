/**
 * What ctnetlink says and hears (linux/netfilter/nfnetlink_conntrack.h), to typed entries and back. Pure.
 */
import { Attributes, Payload, WireError } from './attribute.ts'
import { AF_UNSPEC, addressBytes, addressFamily, addressText, type IpVersion, ipVersion } from './inet.ts'

/** NFNL_SUBSYS_CTNETLINK << 8 and the IPCTNL_MSG_CT_* number. */
export const CONNTRACK_NEW = 0x100
export const CONNTRACK_GET = 0x101
export const CONNTRACK_DELETE = 0x102

const CTA_TUPLE_ORIG = 1
const CTA_TUPLE_REPLY = 2
const CTA_STATUS = 3
const CTA_PROTOINFO = 4
const CTA_MARK = 8
const CTA_ID = 12
const CTA_ZONE = 18
const CTA_FILTER = 25
const CTA_FILTER_ORIG_FLAGS = 1

const CTA_TUPLE_IP = 1
const CTA_TUPLE_PROTO = 2
const CTA_TUPLE_ZONE = 3
/** CTA_IP_V4_SRC and CTA_IP_V6_SRC; the destination is the next number. */
const CTA_IP_SRC = { 4: 1, 6: 3 } as const
/** Both CTA_PROTOINFO_TCP and CTA_PROTOINFO_TCP_STATE. */
const CTA_PROTOINFO_TCP = 1
const CTA_PROTO_NUM = 1
const CTA_PROTO_SRC_PORT = 2
const CTA_PROTO_DST_PORT = 3
/** CTA_PROTO_ICMP_ID and CTA_PROTO_ICMPV6_ID; type and code are the next two numbers. */
const CTA_PROTO_ICMP_ID = { 4: 4, 6: 7 } as const

/**
 * CTA_FILTER_F_* of the kernel's net/netfilter/nf_internals.h, which are not in uapi but are ABI all the same:
 * the parts of the original tuple that an entry must equal (kernel 5.8 and later).
 */
const FILTER_SRC = 1 << 0
const FILTER_DST = 1 << 1
const FILTER_PROTO = 1 << 3
const FILTER_SRC_PORT = 1 << 4
const FILTER_DST_PORT = 1 << 5

const IPPROTO_TCP = 6
const IPPROTO_UDP = 17
/** struct nfgenmsg */
const HEADER_SIZE = 4

/** One direction of a connection. */
export interface Tuple {
  src: string
  dst: string
  /** Protocols with ports only. */
  sport?: number
  dport?: number
}

export interface Conntrack extends Tuple {
  version: IpVersion
  /** IP protocol number. */
  proto: number
  /** What answers look like; differs from the mirror image where NAT is at work. */
  reply: Tuple
  /** ICMP and ICMPv6: type, code and identifier of the question. */
  icmp?: { type: number; code: number; id: number }
  /** Distinguishes this entry from a later one with the same addresses. */
  id: number
  /** Absent is zone 0. */
  zone?: number
  /** A zone that counts in one direction only. */
  zoneDirection?: 'original' | 'reply'
  /** IPS_* bits of linux/netfilter/nf_conntrack_common.h. */
  status: number
  /** enum tcp_conntrack of linux/netfilter/nf_conntrack_tcp.h, for TCP. */
  tcpState?: number
  mark: number
}

/** Values of the original direction that an entry must have exactly; ranges and prefixes go into `where`. */
export interface ConntrackFilter {
  src?: string
  dst?: string
  proto?: number
  sport?: number
  dport?: number
}

/** Reads CONNTRACK_NEW or CONNTRACK_DELETE; undefined for families other than IP. Throws {@link WireError}. */
export function decodeConntrack(payload: Buffer): Conntrack | undefined {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const version = ipVersion(payload.readUInt8(0))
  if (version === undefined) return undefined
  const original = nested(attributes, CTA_TUPLE_ORIG)
  const reply = nested(attributes, CTA_TUPLE_REPLY)
  const protocol = nested(original, CTA_TUPLE_PROTO)
  const icmp = decodeIcmp(protocol, version)
  const tcpState = attributes.nested(CTA_PROTOINFO)?.nested(CTA_PROTOINFO_TCP)?.u8(CTA_PROTOINFO_TCP)
  return {
    version,
    proto: required(protocol.u8(CTA_PROTO_NUM)),
    ...decodeTuple(original, version),
    reply: decodeTuple(reply, version),
    ...(icmp && { icmp }),
    id: required(attributes.u32Be(CTA_ID)),
    ...decodeZone(attributes, original, reply),
    status: attributes.u32Be(CTA_STATUS) ?? 0,
    ...(tcpState !== undefined && { tcpState }),
    mark: attributes.u32Be(CTA_MARK) ?? 0,
  }
}

function decodeTuple(tuple: Attributes, version: IpVersion): Tuple {
  const ip = nested(tuple, CTA_TUPLE_IP)
  const protocol = nested(tuple, CTA_TUPLE_PROTO)
  const sport = protocol.u16Be(CTA_PROTO_SRC_PORT)
  const dport = protocol.u16Be(CTA_PROTO_DST_PORT)
  return {
    src: addressText(required(ip.bytes(CTA_IP_SRC[version]))),
    dst: addressText(required(ip.bytes(CTA_IP_SRC[version] + 1))),
    ...(sport !== undefined && { sport }),
    ...(dport !== undefined && { dport }),
  }
}

function decodeIcmp(protocol: Attributes, version: IpVersion): Conntrack['icmp'] {
  const id = protocol.u16Be(CTA_PROTO_ICMP_ID[version])
  const type = protocol.u8(CTA_PROTO_ICMP_ID[version] + 1)
  const code = protocol.u8(CTA_PROTO_ICMP_ID[version] + 2)
  return id === undefined || type === undefined || code === undefined ? undefined : { type, code, id }
}

/** A zone of both directions stands beside the tuples, a zone of one direction inside its tuple. */
function decodeZone(
  entry: Attributes,
  original: Attributes,
  reply: Attributes,
): Pick<Conntrack, 'zone' | 'zoneDirection'> {
  const zone = entry.u16Be(CTA_ZONE)
  if (zone !== undefined) return { zone }
  const originalZone = original.u16Be(CTA_TUPLE_ZONE)
  if (originalZone !== undefined) return { zone: originalZone, zoneDirection: 'original' }
  const replyZone = reply.u16Be(CTA_TUPLE_ZONE)
  return replyZone === undefined ? {} : { zone: replyZone, zoneDirection: 'reply' }
}

/** Without a tuple the kernel would flush the whole table; with the id it removes this entry or nothing. */
export function encodeDeletion(entry: Conntrack): Buffer {
  const { version, proto, icmp, zone, zoneDirection } = entry
  const payload = new Payload().raw(conntrackHeader(version))
  payload.nest(CTA_TUPLE_ORIG, () => {
    appendAddresses(payload, version, entry)
    payload.nest(CTA_TUPLE_PROTO, () => {
      appendProtocol(payload, { ...entry, proto })
      if (!icmp) return
      payload.u16Be(CTA_PROTO_ICMP_ID[version], icmp.id)
      payload.u8(CTA_PROTO_ICMP_ID[version] + 1, icmp.type)
      payload.u8(CTA_PROTO_ICMP_ID[version] + 2, icmp.code)
    })
    if (zone !== undefined && zoneDirection === 'original') payload.u16Be(CTA_TUPLE_ZONE, zone)
  })
  if (zone !== undefined && zoneDirection === undefined) payload.u16Be(CTA_ZONE, zone)
  return payload.u32Be(CTA_ID, entry.id).finish()
}

/**
 * A dump request with what the kernel can be trusted to filter, undefined when that is nothing. Not IPv6 addresses:
 * ctnetlink_filter_match_tuple compares them the wrong way round and would leave out exactly the matching entries.
 * Ports mean something to it for TCP and UDP, and only together with the protocol.
 */
export function encodeFilter(version: IpVersion, filter: ConntrackFilter): Buffer | undefined {
  const ported = filter.proto === IPPROTO_TCP || filter.proto === IPPROTO_UDP
  const usable: ConntrackFilter = {
    ...(version === 4 && filter.src !== undefined && { src: filter.src }),
    ...(version === 4 && filter.dst !== undefined && { dst: filter.dst }),
    ...(filter.proto !== undefined && { proto: filter.proto }),
    ...(ported && filter.sport !== undefined && { sport: filter.sport }),
    ...(ported && filter.dport !== undefined && { dport: filter.dport }),
  }
  const flags = filterFlags(usable)
  if (flags === 0) return undefined
  const payload = new Payload().raw(conntrackHeader(version))
  payload.nest(CTA_TUPLE_ORIG, () => {
    appendAddresses(payload, version, usable)
    if (usable.proto !== undefined) payload.nest(CTA_TUPLE_PROTO, () => appendProtocol(payload, usable))
  })
  return payload.nest(CTA_FILTER, () => payload.u32(CTA_FILTER_ORIG_FLAGS, flags)).finish()
}

function filterFlags({ src, dst, proto, sport, dport }: ConntrackFilter): number {
  return (
    (src === undefined ? 0 : FILTER_SRC) |
    (dst === undefined ? 0 : FILTER_DST) |
    (proto === undefined ? 0 : FILTER_PROTO) |
    (sport === undefined ? 0 : FILTER_SRC_PORT) |
    (dport === undefined ? 0 : FILTER_DST_PORT)
  )
}

function appendAddresses(payload: Payload, version: IpVersion, { src, dst }: ConntrackFilter): void {
  if (src === undefined && dst === undefined) return
  payload.nest(CTA_TUPLE_IP, () => {
    if (src !== undefined) payload.bytes(CTA_IP_SRC[version], addressBytes(src))
    if (dst !== undefined) payload.bytes(CTA_IP_SRC[version] + 1, addressBytes(dst))
  })
}

function appendProtocol(payload: Payload, { proto, sport, dport }: ConntrackFilter): void {
  if (proto !== undefined) payload.u8(CTA_PROTO_NUM, proto)
  if (sport !== undefined) payload.u16Be(CTA_PROTO_SRC_PORT, sport)
  if (dport !== undefined) payload.u16Be(CTA_PROTO_DST_PORT, dport)
}

/** struct nfgenmsg; the kernel filters by its family. */
export function conntrackHeader(version: IpVersion | undefined): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeUInt8(version === undefined ? AF_UNSPEC : addressFamily(version), 0)
  return bytes
}

function nested(attributes: Attributes, type: number): Attributes {
  return required(attributes.nested(type))
}

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new WireError('conntrack entry without a part that every entry has')
  return value
}
