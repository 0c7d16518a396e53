/**
 * Netlink messages (struct nlmsghdr of include/uapi/linux/netlink.h) to bytes and back. Pure.
 * Their content is in attribute.ts; the same rules hold: no length is trusted, and every step moves forward.
 */
import { Attributes, align, WireError } from './attribute.ts'

/** nlmsghdr flags */
export const NLM_F_REQUEST = 0x1
export const NLM_F_ACK = 0x4
export const NLM_F_DUMP_INTR = 0x10
export const NLM_F_DUMP = 0x300
export const NLM_F_REPLACE = 0x100
export const NLM_F_EXCL = 0x200
export const NLM_F_CREATE = 0x400
export const NLM_F_APPEND = 0x800
const NLM_F_CAPPED = 0x100
const NLM_F_ACK_TLVS = 0x200

/** Message types below 16 belong to netlink itself. */
export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3

const NLMSGERR_ATTR_MSG = 1
const HEADER_SIZE = 16

/** A message to the kernel; the socket adds NLM_F_REQUEST, NLM_F_ACK and the sequence number. */
export interface Message {
  readonly type: number
  readonly flags: number
  readonly payload: Uint8Array
}

/** A message from the kernel. `payload` is a view of the receive buffer: copy what must outlive the callback. */
export interface Received {
  readonly type: number
  readonly flags: number
  readonly sequence: number
  /** nlmsg_pid: the socket that an answer is for or that a change was asked by; 0 for the kernel's own doing. */
  readonly port: number
  readonly payload: Buffer
}

/** What NLMSG_ERROR or NLMSG_DONE says: `errno` 0 is success. */
export interface Outcome {
  readonly errno: number
  readonly extack: string | undefined
}

/** One datagram of several messages; the n-th has sequence number `first + n` (modulo 2^32). */
export function encodeMessages(messages: readonly Message[], first: number, extraFlags: number): Buffer {
  const size = messages.reduce((sum, { payload }) => sum + align(HEADER_SIZE + payload.length), 0)
  const bytes = Buffer.alloc(size)
  let at = 0
  for (const [n, { type, flags, payload }] of messages.entries()) {
    bytes.writeUInt32LE(HEADER_SIZE + payload.length, at)
    bytes.writeUInt16LE(type, at + 4)
    bytes.writeUInt16LE(flags | extraFlags, at + 6)
    bytes.writeUInt32LE((first + n) >>> 0, at + 8)
    bytes.set(payload, at + HEADER_SIZE)
    at += align(HEADER_SIZE + payload.length)
  }
  return bytes
}

/** The messages of one datagram. Throws {@link WireError}. */
export function decodeMessages(bytes: Buffer): Received[] {
  const messages: Received[] = []
  let at = 0
  while (at + HEADER_SIZE <= bytes.length) {
    const size = bytes.readUInt32LE(at)
    if (size < HEADER_SIZE || size > bytes.length - at) {
      throw new WireError(`netlink message of ${size} bytes where ${bytes.length - at} are left`)
    }
    messages.push({
      type: bytes.readUInt16LE(at + 4),
      flags: bytes.readUInt16LE(at + 6),
      sequence: bytes.readUInt32LE(at + 8),
      port: bytes.readUInt32LE(at + 12),
      payload: bytes.subarray(at + HEADER_SIZE, at + size),
    })
    at += align(size)
  }
  return messages
}

/**
 * The result that an NLMSG_ERROR (which is also the acknowledgement) or an NLMSG_DONE carries, with the kernel's
 * text when NETLINK_EXT_ACK is on. Throws {@link WireError}.
 */
export function decodeOutcome({ type, flags, payload }: Omit<Received, 'port'>): Outcome {
  if (payload.length < 4) {
    // Old dumps end with an NLMSG_DONE that has no result at all.
    if (type === NLMSG_DONE) return { errno: 0, extack: undefined }
    throw new WireError('netlink acknowledgement without a result')
  }
  const errno = -payload.readInt32LE(0)
  if ((flags & NLM_F_ACK_TLVS) === 0 || errno <= 0) return { errno: Math.max(errno, 0), extack: undefined }
  return { errno, extack: new Attributes(payload, explanationOffset(type, flags, payload)).text(NLMSGERR_ATTR_MSG) }
}

/** In NLMSG_ERROR the request is echoed before the explanation: its header only when capped, else all of it. */
function explanationOffset(type: number, flags: number, payload: Buffer): number {
  if (type === NLMSG_DONE) return 4
  if (payload.length < 4 + HEADER_SIZE) throw new WireError('netlink acknowledgement without its request')
  return 4 + (flags & NLM_F_CAPPED ? HEADER_SIZE : align(payload.readUInt32LE(4)))
}
