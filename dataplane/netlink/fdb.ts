/**
 * Forwarding databases of VXLAN devices by rtnetlink (RTM_*NEIGH of family AF_BRIDGE; linux/neighbour.h): which VTEP a
 * frame goes to by the MAC that it is for. An entry has several destinations when its MAC is {@link FLOOD}, and the
 * kernel tells of each by itself.
 */
import { Attributes, Payload } from './attribute.ts'
import { addressBytes, addressText, macBytes, macText } from './inet.ts'
import { RTM_DELNEIGH, RTM_NEWNEIGH } from './neighbour.ts'
import type { Netlink } from './socket.ts'
import { type Message, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REPLACE } from './wire.ts'

/** include/linux/socket.h */
export const AF_BRIDGE = 7
/** The entry for frames to many, and to MACs that are not known. */
export const FLOOD = '00:00:00:00:00:00'

const RTM_GETNEIGH = 30
const NDA_DST = 1
const NDA_LLADDR = 2
const NUD_PERMANENT = 0x80
/** Of the device itself, not of the bridge that it is a port of. */
const NTF_SELF = 0x02
/** struct ndmsg */
const HEADER_SIZE = 12

export interface FdbRow {
  /** Index of the VXLAN device. */
  index: number
  mac: string
  /** Address of the VTEP. */
  vtep: string
  /** False for what the kernel learned from frames that came in. */
  permanent: boolean
}

type Destination = Pick<FdbRow, 'index' | 'mac' | 'vtep'>

/** All entries of a device that lead to a VTEP, learned ones included. Rejects as {@link Netlink.dump} does. */
export function listFdb(netlink: Netlink, index: number): Promise<FdbRow[]> {
  return netlink.dump(RTM_GETNEIGH, header(index, 0, 0), ({ type, payload }) => {
    const found = type === RTM_NEWNEIGH ? decodeFdb(payload) : undefined
    return found?.index === index ? found : undefined
  })
}

/** Those that somebody made; the learned ones, which may be many, are not read. Rejects as {@link Netlink.dump} does. */
export function listPermanent(netlink: Netlink, index: number): Promise<FdbRow[]> {
  return netlink.dump(RTM_GETNEIGH, header(index, 0, 0), ({ type, payload }) => {
    if (type !== RTM_NEWNEIGH || (stateOf(payload) & NUD_PERMANENT) === 0) return undefined
    const found = decodeFdb(payload)
    return found?.index === index ? found : undefined
  })
}

/** Reads RTM_NEWNEIGH or RTM_DELNEIGH; undefined for what is not of a VXLAN device or leads to no VTEP. Throws {@link WireError}. */
export function decodeFdb(payload: Buffer): FdbRow | undefined {
  if (payload.readUInt8(0) !== AF_BRIDGE || (payload.readUInt8(10) & NTF_SELF) === 0) return undefined
  const attributes = new Attributes(payload, HEADER_SIZE)
  const [mac, vtep] = [macText(attributes.bytes(NDA_LLADDR)), attributes.bytes(NDA_DST)]
  if (mac === undefined || vtep === undefined) return undefined
  const permanent = (stateOf(payload) & NUD_PERMANENT) !== 0
  return { index: payload.readInt32LE(4), mac, vtep: addressText(vtep), permanent }
}

/** Adds a destination of FLOOD, or makes `vtep` the destination of a MAC, learned or not. No error when it is there. */
export function addFdb(to: Destination): Message {
  const flags = NLM_F_CREATE | (to.mac === FLOOD ? NLM_F_APPEND : NLM_F_REPLACE)
  return { type: RTM_NEWNEIGH, flags, payload: encode(to, NUD_PERMANENT) }
}

/** Removes this destination, and no other of the MAC. ENOENT when there is none. */
export function deleteFdb(to: Destination): Message {
  return { type: RTM_DELNEIGH, flags: 0, payload: encode(to, 0) }
}

function encode({ index, mac, vtep }: Destination, state: number): Buffer {
  return new Payload()
    .raw(header(index, state, NTF_SELF))
    .bytes(NDA_LLADDR, macBytes(mac))
    .bytes(NDA_DST, addressBytes(vtep))
    .finish()
}

function header(index: number, state: number, flags: number): Buffer {
  const bytes = Buffer.alloc(HEADER_SIZE)
  bytes.writeUInt8(AF_BRIDGE, 0)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt16LE(state, 8)
  bytes.writeUInt8(flags, 10)
  return bytes
}

const stateOf = (payload: Buffer): number => payload.readUInt16LE(8)
