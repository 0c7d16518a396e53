/** The reference's reading of a frame: what dataplane/bpf/src/parse.h must find in it. */
import { macText } from '../../../netlink/inet.ts'
import type { ReasonName } from '../reason.ts'
import { TYPE } from './packet.ts'

export interface Frame {
  to: string
  from: string
  /** Outer first, the one beside the frame included. */
  vids: number[]
  /** EtherType behind the tags. */
  type: number
  /** Where the network header begins. */
  at: number
  /** IPv4 source or ARP sender; undefined when there is none or it is 0.0.0.0. */
  sender?: string
  target?: string
  arpMac?: string
  /** UDP ports, unless the packet is not the first fragment. */
  ports?: [from: number, to: number]
  fragment: boolean
}

/** What is wrong with a frame, as far as it could be read. */
export interface Unreadable {
  reason: ReasonName
  frame: Partial<Frame>
}

const TAGS: readonly number[] = [TYPE.vlan, TYPE.service]
const OLD_QINQ = 0x9100

const mac = (data: Buffer, at: number) => macText(data.subarray(at, at + 6)) ?? ''
const ip = (data: Buffer, at: number) => data.subarray(at, at + 4).join('.')
const unlessZero = (address: string) => (address === '0.0.0.0' ? undefined : address)

/** Ethernet and tags; `beside` as in `Packet`. */
export function readLink(data: Buffer, beside: number): { frame: Frame } | Unreadable {
  const frame: Frame = { to: mac(data, 0), from: mac(data, 6), vids: [], type: 0, at: 14, fragment: false }
  if (beside) frame.vids.push(beside & 0xfff)
  frame.type = data.readUInt16BE(12)
  for (let inFrame = 0; inFrame < 2 && TAGS.includes(frame.type); inFrame++) {
    if (data.length < frame.at + 4) return { reason: 'short', frame }
    frame.vids.push(data.readUInt16BE(frame.at) & 0xfff)
    frame.type = data.readUInt16BE(frame.at + 2)
    frame.at += 4
  }
  if (frame.vids.length > 2 || TAGS.includes(frame.type) || frame.type === OLD_QINQ) return { reason: 'tags', frame }
  return { frame }
}

/** Ethernet, tags, IPv4 and ARP. */
export function readFrame(data: Buffer, beside: number): { frame: Frame } | Unreadable {
  const link = readLink(data, beside)
  if ('reason' in link) return link
  const { frame } = link
  const packet = data.subarray(frame.at)
  if (frame.type === TYPE.ipv4) {
    if (packet.length < 20) return { reason: 'short', frame }
    const [first = 0] = packet
    const length = (first & 15) * 4
    if (first >> 4 !== 4 || length < 20) return { reason: 'malformed', frame }
    const fragment = packet.readUInt16BE(6)
    frame.fragment = (fragment & 0x3fff) !== 0
    const isFirst = (fragment & 0x1fff) === 0
    if (packet[9] === 17 && isFirst && packet.length >= length + 4)
      frame.ports = [packet.readUInt16BE(length), packet.readUInt16BE(length + 2)]
    return { frame: { ...frame, ...addresses(ip(packet, 12), ip(packet, 16)) } }
  }
  if (frame.type === TYPE.arp || frame.type === TYPE.rarp) {
    if (packet.length < 28) return { reason: 'short', frame }
    if (packet.toString('hex', 0, 6) !== '000108000604') return { reason: 'malformed', frame }
    return { frame: { ...frame, ...addresses(ip(packet, 14), ip(packet, 24)), arpMac: mac(packet, 8) } }
  }
  return { frame }
}

function addresses(from: string, to: string): Pick<Frame, 'sender' | 'target'> {
  const [sender, target] = [unlessZero(from), unlessZero(to)]
  return { ...(sender && { sender }), ...(target && { target }) }
}

export const isMulticast = (mac: string): boolean => (Number.parseInt(mac.slice(0, 2), 16) & 1) === 1
export const isReserved = (mac: string): boolean => /^01:80:c2:00:00:0/.test(mac)

/** Reads the bytes from `at`, or throws `OutOfFrame`. */
function bytes(data: Buffer, at: number, length: number): Buffer {
  if (data.length < at + length) throw new OutOfFrame()
  return data.subarray(at, at + length)
}

class OutOfFrame extends Error {}

const EXTENSIONS: readonly number[] = [0, 43, 60]
const HIDING: readonly number[] = [...EXTENSIONS, 44, 51, 135, 139, 140]

/** What a bound MAC may not say by IPv6; undefined when it may. */
export function judgeIpv6(data: Buffer, at: number, source: string): ReasonName | undefined {
  try {
    const header = bytes(data, at, 40)
    if ((header[0] ?? 0) >> 4 !== 6) return 'malformed'
    const from = header.subarray(8, 24)
    if (!isLinkLocal(from) && from.some((byte) => byte !== 0)) return 'ipv6'
    const end = at + 40 + header.readUInt16BE(4)
    let [next, upper] = [header[6] ?? 0, at + 40]
    for (let skipped = 0; skipped < 4 && EXTENSIONS.includes(next); skipped++) {
      const [following = 0, length = 0] = bytes(data, upper, 2)
      next = following
      upper += (length + 1) * 8
    }
    if (HIDING.includes(next)) return 'ipv6_hidden'
    if (next === 58) return judgeIcmp(data, upper, end, source)
    if (next === 17 && bytes(data, upper, 2).readUInt16BE(0) === 547) return 'ipv6_router'
    return undefined
  } catch (error) {
    if (error instanceof OutOfFrame) return 'short'
    throw error
  }
}

function judgeIcmp(data: Buffer, at: number, end: number, source: string): ReasonName | undefined {
  const [type = 0] = bytes(data, at, 1)
  if (type === 134 || type === 137) return 'ipv6_router'
  if (type < 133 || type > 136) return undefined
  const fixed = type === 133 ? 8 : 24
  if (at + fixed > end) return 'short'
  if (type !== 133 && !isLinkLocal(bytes(data, at, fixed).subarray(8))) return 'ipv6'
  let option = at + fixed
  for (let seen = 0; option < end; seen++) {
    if (seen === 4) return 'ipv6'
    const [kind = 0, length = 0] = bytes(data, option, 2)
    if (length === 0) return 'malformed'
    if ((kind === 1 || kind === 2) && macText(bytes(data, option + 2, 6)) !== source) return 'ipv6'
    option += length * 8
  }
  return undefined
}

function isLinkLocal(address: Buffer): boolean {
  return address[0] === 0xfe && ((address[1] ?? 0) & 0xc0) === 0x80
}
