/** The reference's reading of a frame: what dataplane/bpf/src/parse.h must find in it. */
import { macBytes, macText } from '../../../netlink/inet.ts'
import type { ReasonName } from '../reason.ts'
import { TYPE } from './packet.ts'

export interface Frame {
  to: string
  from: string
  /** Outer first, the one beside the frame included. */
  vids: number[]
  /** A tag stands beside the frame. */
  beside?: boolean
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
  /** What an IPv4 packet of UDP carries: the datagram or its first fragment, or a later one. */
  payload?: Buffer
  fragment: boolean
  laterFragment?: boolean
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
  if (beside) {
    frame.vids.push(beside & 0xfff)
    frame.beside = true
  }
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
    frame.laterFragment = !isFirst
    if (packet[9] === 17) frame.payload = packet.subarray(length)
    if (packet[9] === 17 && isFirst && packet.length >= length + 4)
      frame.ports = [packet.readUInt16BE(length), packet.readUInt16BE(length + 2)]
    return { frame: { ...frame, ...addresses(ip(packet, 12), ip(packet, 16)) } }
  }
  if (frame.type === TYPE.arp || frame.type === TYPE.rarp) {
    if (packet.length < 28) return { reason: 'short', frame }
    if (packet.toString('hex', 0, 6) !== '000108000604') return { reason: 'malformed', frame }
    return { frame: { ...frame, ...addresses(ip(packet, 14), ip(packet, 24)), arpMac: mac(packet, 8) } }
  }
  if ((frame.type < 0x600 || frame.type === 0x8870) && wrapsEtherType(packet)) return { reason: 'llc', frame }
  return { frame }
}

/** LLC with SNAP in front of what is judged under its EtherType. */
function wrapsEtherType(packet: Buffer): boolean {
  if (packet.length < 8) return false
  const [destination = 0, source = 0, control = 0] = packet
  if ((destination | 1) !== 0xab || (source | 1) !== 0xab || (control | 0x10) !== 0x13) return false
  if (!['000000', '0000f8'].includes(packet.toString('hex', 3, 6))) return false
  return [TYPE.ipv4, TYPE.arp, TYPE.rarp, TYPE.ipv6, ...TAGS, OLD_QINQ].includes(packet.readUInt16BE(6))
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

/** Sent without address: router and neighbour solicitation, reports of multicast groups. */
const WITHOUT_ADDRESS: readonly number[] = [131, 132, 133, 135, 143]

/** Who sends: its MAC, and whether a link-local address is its own. */
export interface Speaker {
  mac: string
  owns(address: Buffer): boolean
}

/** What a bound MAC may not say by IPv6; undefined when it may. */
export function judgeIpv6(data: Buffer, at: number, speaker: Speaker): ReasonName | undefined {
  try {
    const header = bytes(data, at, 40)
    if ((header[0] ?? 0) >> 4 !== 6) return 'malformed'
    const from = header.subarray(8, 24)
    const nobody = from.every((byte) => byte === 0)
    if (!nobody && !isLinkLocal(from)) return 'ipv6'
    if (!nobody && !speaker.owns(from)) return 'ipv6_link'
    const end = at + 40 + header.readUInt16BE(4)
    let [next, upper] = [header[6] ?? 0, at + 40]
    for (let skipped = 0; skipped < 4 && EXTENSIONS.includes(next); skipped++) {
      const [following = 0, length = 0] = bytes(data, upper, 2)
      next = following
      upper += (length + 1) * 8
    }
    if (HIDING.includes(next)) return 'ipv6_hidden'
    if (next === 58) return judgeIcmp(data, upper, end, speaker, nobody)
    if (next === 17) {
      const ports = bytes(data, upper, 4)
      if (ports.readUInt16BE(0) === 547 || ports.readUInt16BE(2) === 546) return 'ipv6_router'
    }
    return nobody ? 'zero_address' : undefined
  } catch (error) {
    if (error instanceof OutOfFrame) return 'short'
    throw error
  }
}

function judgeIcmp(
  data: Buffer,
  at: number,
  end: number,
  { mac, owns }: Speaker,
  nobody: boolean,
): ReasonName | undefined {
  const [type = 0] = bytes(data, at, 1)
  if (type === 134 || type === 137) return 'ipv6_router'
  if (nobody && !WITHOUT_ADDRESS.includes(type)) return 'zero_address'
  if (type < 133 || type > 136) return undefined
  const fixed = type === 133 ? 8 : 24
  if (at + fixed > end) return 'short'
  if (type !== 133) {
    const target = bytes(data, at, fixed).subarray(8)
    if (!isLinkLocal(target)) return 'ipv6'
    if ((type === 136 || nobody) && !owns(target)) return 'ipv6_target'
  }
  let option = at + fixed
  for (let seen = 0; option < end; seen++) {
    if (seen === 4) return 'ipv6'
    const [kind = 0, length = 0] = bytes(data, option, 2)
    if (length === 0) return 'malformed'
    if ((kind === 1 || kind === 2) && macText(bytes(data, option + 2, 6)) !== mac) return 'ipv6'
    option += length * 8
  }
  return undefined
}

function isLinkLocal(address: Buffer): boolean {
  return address[0] === 0xfe && ((address[1] ?? 0) & 0xc0) === 0x80
}

/** Interface id of the EUI-64 address of a MAC, as hex. */
export function eui64(mac: string): string {
  const [first = 0, ...rest] = macBytes(mac)
  return Buffer.from([first ^ 2, ...rest.slice(0, 2), 0xff, 0xfe, ...rest.slice(2)]).toString('hex')
}

/** What stands behind up to four extension headers; undefined when the packet ends before. */
export function skipExtensions(packet: Buffer): { next: number; payload: Buffer } | undefined {
  if (packet.length < 7) return undefined
  let [next, at] = [packet[6] ?? 0, 40]
  for (let skipped = 0; skipped < 4 && EXTENSIONS.includes(next); skipped++) {
    if (packet.length < at + 2) return undefined
    const [following = 0, length = 0] = packet.subarray(at)
    next = following
    at += (length + 1) * 8
  }
  return { next, payload: packet.subarray(at) }
}
