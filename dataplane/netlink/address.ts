/** IP addresses of links by rtnetlink (RTM_*ADDR; linux/if_addr.h). */
import { ROUTE_PROTOCOL } from '../numbers.ts'
import { Attributes, Payload, WireError } from './attribute.ts'
import { AF_UNSPEC, addressFamily, addressText, type IpVersion, ipVersion, parsePrefix } from './inet.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from './wire.ts'

export const RTM_NEWADDR = 20
export const RTM_DELADDR = 21
const RTM_GETADDR = 22

const IFA_ADDRESS = 1
const IFA_LOCAL = 2
const IFA_CACHEINFO = 6
const IFA_FLAGS = 8
const IFA_PROTO = 11
const IFA_F_NODAD = 0x02
const IFA_F_TENTATIVE = 0x40
const IFA_F_PERMANENT = 0x80
const IFA_F_DADFAILED = 0x08
const IFA_F_NOPREFIXROUTE = 0x200
/** A lifetime that does not end. */
const INFINITY_LIFE_TIME = 0xffffffff
/** struct ifaddrmsg */
const HEADER_SIZE = 8

/** rtnetlink.h: how far an address or route reaches. */
export const RT_SCOPE_UNIVERSE = 0
export const RT_SCOPE_LINK = 253

export interface Address {
  version: IpVersion
  /** Index of the link. */
  index: number
  /** The link's own address with its prefix length: `10.0.0.1/24`. */
  cidr: string
  /** Other end of a point-to-point link. */
  peer?: string
  /** RT_SCOPE_*: 0 global, 253 link, 254 host. */
  scope: number
  /** False for addresses with a lifetime (DHCP clients, router advertisements). */
  permanent: boolean
  /** IPv6 whose uniqueness is being checked or was refuted: the kernel does not use it (yet). */
  unusable: boolean
  /** IFA_PROTO: who made it; 0 where unknown, and on kernels before 5.18. */
  protocol: number
  /** Set where the kernel made no route to the address's prefix. */
  noPrefixRoute?: true
}

export interface NewAddress {
  index: number
  /** `10.0.0.1/24` or `fd00::1/64`: host bits stay. */
  cidr: string
  /** Skip IPv6 duplicate address detection, which leaves the address unusable for a second; default false. */
  noDad?: boolean
  /** Make no route to the prefix; default false. */
  noPrefixRoute?: boolean
  /** Default 0 (universe). */
  scope?: number
  /** IPv6: not chosen as the source of what the node sends, while there is another (RFC 6724 section 5, rule 3). */
  deprecated?: boolean
  /** Default: ours. */
  protocol?: number
}

/** All addresses, of one link or of one IP version if asked. Rejects as {@link Netlink.dump} does. */
export function listAddresses(
  netlink: Netlink,
  filter: { version?: IpVersion; index?: number } = {},
): Promise<Address[]> {
  const family = filter.version ? addressFamily(filter.version) : AF_UNSPEC
  return netlink.dump(RTM_GETADDR, header(family, 0, 0, filter.index ?? 0), ({ type, payload }) => {
    const address = type === RTM_NEWADDR ? decodeAddress(payload) : undefined
    // A dump of both versions ignores the index.
    return filter.index === undefined || address?.index === filter.index ? address : undefined
  })
}

/** Reads RTM_NEWADDR or RTM_DELADDR; undefined for families other than IP. Throws {@link WireError}. */
export function decodeAddress(payload: Buffer): Address | undefined {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const version = ipVersion(payload.readUInt8(0))
  if (version === undefined) return undefined
  const prefix = attributes.bytes(IFA_ADDRESS)
  // With a peer, IFA_ADDRESS is the peer; IPv6 without one leaves IFA_LOCAL out.
  const local = attributes.bytes(IFA_LOCAL) ?? prefix
  if (!local) throw new WireError('address message without an address')
  const flags = attributes.u32(IFA_FLAGS) ?? payload.readUInt8(2)
  return {
    version,
    index: payload.readUInt32LE(4),
    cidr: `${addressText(local)}/${payload.readUInt8(1)}`,
    scope: payload.readUInt8(3),
    permanent: (flags & IFA_F_PERMANENT) !== 0,
    unusable: (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) !== 0,
    protocol: attributes.u8(IFA_PROTO) ?? 0,
    ...(prefix && !prefix.equals(local) && { peer: addressText(prefix) }),
    ...((flags & IFA_F_NOPREFIXROUTE) !== 0 && { noPrefixRoute: true }),
  }
}

/** EEXIST when the link has it already. */
export function addAddress({ index, cidr, noDad, noPrefixRoute, scope, protocol, deprecated }: NewAddress): Message {
  const payload = identify(index, cidr, scope ?? RT_SCOPE_UNIVERSE).u8(IFA_PROTO, protocol ?? ROUTE_PROTOCOL)
  const flags = (noDad ? IFA_F_NODAD : 0) | (noPrefixRoute ? IFA_F_NOPREFIXROUTE : 0)
  if (flags !== 0) payload.u32(IFA_FLAGS, flags)
  if (deprecated) payload.bytes(IFA_CACHEINFO, lifetimes(0, INFINITY_LIFE_TIME))
  return { type: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_EXCL, payload: payload.finish() }
}

/** EADDRNOTAVAIL when the link does not have it. Routes through its subnet go with it. */
export function deleteAddress({ index, cidr }: Pick<NewAddress, 'index' | 'cidr'>): Message {
  return { type: RTM_DELADDR, flags: 0, payload: identify(index, cidr, RT_SCOPE_UNIVERSE).finish() }
}

/** struct ifa_cacheinfo */
function lifetimes(preferred: number, valid: number): Buffer {
  const bytes = Buffer.alloc(16)
  bytes.writeUInt32LE(preferred, 0)
  bytes.writeUInt32LE(valid, 4)
  return bytes
}

function identify(index: number, cidr: string, scope: number): Payload {
  const { version, bytes, length } = parsePrefix(cidr)
  return new Payload()
    .raw(header(addressFamily(version), length, scope, index))
    .bytes(IFA_LOCAL, bytes)
    .bytes(IFA_ADDRESS, bytes)
}

function header(family: number, length: number, scope: number, index: number): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeUInt8(family, 0)
  bytes.writeUInt8(length, 1)
  bytes.writeUInt8(scope, 3)
  bytes.writeUInt32LE(index, 4)
  return bytes
}
