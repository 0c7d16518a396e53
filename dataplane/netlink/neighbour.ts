/** The neighbour tables (ARP and IPv6 neighbour discovery) by rtnetlink (RTM_*NEIGH; linux/neighbour.h). */
import { Attributes, Payload } from './attribute.ts'
import {
  AF_UNSPEC,
  addressBytes,
  addressFamily,
  addressText,
  type IpVersion,
  ipVersion,
  macBytes,
  macText,
} from './inet.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from './wire.ts'

export const RTM_NEWNEIGH = 28
export const RTM_DELNEIGH = 29
const RTM_GETNEIGH = 30

const NDA_DST = 1
const NDA_LLADDR = 2
const NDA_IFINDEX = 8
const NDA_PROTOCOL = 12
/** struct ndmsg */
const HEADER_SIZE = 12

/** ndm_state (NUD_*): one bit each. */
const STATES = {
  none: 0x00,
  incomplete: 0x01,
  reachable: 0x02,
  stale: 0x04,
  delay: 0x08,
  probe: 0x10,
  failed: 0x20,
  noarp: 0x40,
  permanent: 0x80,
} as const
export type NeighbourState = keyof typeof STATES

export interface Neighbour {
  version: IpVersion
  /** Index of the link. */
  index: number
  address: string
  /** Absent while unresolved. */
  mac?: string
  state: NeighbourState
  /** NDA_PROTOCOL: who made it; absent where nobody said. */
  protocol?: number
}

export interface NewNeighbour {
  index: number
  address: string
  mac: string
  /** Default `permanent`: never expires, never asked for. */
  state?: NeighbourState
  /** Who makes it; default nobody. */
  protocol?: number
}

/** Neighbours of all links, or of one. Rejects as {@link Netlink.dump} does. */
export function listNeighbours(
  netlink: Netlink,
  filter: { version?: IpVersion; index?: number } = {},
): Promise<Neighbour[]> {
  const payload = new Payload().raw(header(filter.version ? addressFamily(filter.version) : AF_UNSPEC, 0, 0))
  if (filter.index !== undefined) payload.u32(NDA_IFINDEX, filter.index)
  return netlink.dump(RTM_GETNEIGH, payload.finish(), ({ type, payload }) => {
    const neighbour = type === RTM_NEWNEIGH ? decodeNeighbour(payload) : undefined
    return filter.index === undefined || neighbour?.index === filter.index ? neighbour : undefined
  })
}

/** Reads RTM_NEWNEIGH or RTM_DELNEIGH; undefined when it is not of IP (bridges tell of MACs). Throws {@link WireError}. */
export function decodeNeighbour(payload: Buffer): Neighbour | undefined {
  const attributes = new Attributes(payload, HEADER_SIZE)
  const version = ipVersion(payload.readUInt8(0))
  const address = attributes.bytes(NDA_DST)
  if (version === undefined || !address) return undefined
  const mac = macText(attributes.bytes(NDA_LLADDR))
  const protocol = attributes.u8(NDA_PROTOCOL)
  return {
    version,
    index: payload.readInt32LE(4),
    address: addressText(address),
    state: stateOf(payload.readUInt16LE(8)),
    ...(mac !== undefined && { mac }),
    ...(protocol !== undefined && { protocol }),
  }
}

/** A question for {@link Netlink.ask} (Linux 5.0); it is answered by RTM_NEWNEIGH, or ENOENT when there is none. */
export function askNeighbour({ index, address }: Pick<NewNeighbour, 'index' | 'address'>): Message {
  return { type: RTM_GETNEIGH, flags: 0, payload: identify(index, address, 'none').finish() }
}

/** EEXIST when the link has an entry for the address, learned ones included. */
export function addNeighbour(neighbour: NewNeighbour): Message {
  return { type: RTM_NEWNEIGH, flags: NLM_F_CREATE | NLM_F_EXCL, payload: encode(neighbour) }
}

/** Makes the entry, or overwrites the one for this address, whoever made it. */
export function replaceNeighbour(neighbour: NewNeighbour): Message {
  return { type: RTM_NEWNEIGH, flags: NLM_F_CREATE | NLM_F_REPLACE, payload: encode(neighbour) }
}

/** ENOENT when there is none. A permanent entry may linger as `failed` for a moment while packets hold it. */
export function deleteNeighbour({ index, address }: Pick<NewNeighbour, 'index' | 'address'>): Message {
  return { type: RTM_DELNEIGH, flags: 0, payload: identify(index, address, 'none').finish() }
}

function encode({ index, address, mac, state = 'permanent', protocol }: NewNeighbour): Buffer {
  const payload = identify(index, address, state).bytes(NDA_LLADDR, macBytes(mac))
  if (protocol !== undefined) payload.u8(NDA_PROTOCOL, protocol)
  return payload.finish()
}

function identify(index: number, address: string, state: NeighbourState): Payload {
  const bytes = addressBytes(address)
  return new Payload()
    .raw(header(addressFamily(bytes.length === 4 ? 4 : 6), index, STATES[state]))
    .bytes(NDA_DST, bytes)
}

function header(family: number, index: number, state: number): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeUInt8(family, 0)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt16LE(state, 8)
  return bytes
}

function stateOf(bits: number): NeighbourState {
  // Object.entries loses the key type; the keys are those of STATES.
  const names = Object.entries(STATES) as [NeighbourState, number][]
  return names.find(([, bit]) => bit === bits)?.[0] ?? 'none'
}
