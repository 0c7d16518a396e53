/** Packets as attackers write them: every field as asked for, checksums right, nothing else checked. */
import { macBytes } from '../../frames.ts'

export const TYPE = {
  ipv4: 0x0800,
  arp: 0x0806,
  rarp: 0x8035,
  vlan: 0x8100,
  ipv6: 0x86dd,
  mpls: 0x8847,
  pppoe: 0x8863,
} as const
export const ALL_HOSTS = 'ff:ff:ff:ff:ff:ff'
/** Of all nodes (RFC 4291 §2.7.1). */
export const ALL_NODES = { mac: '33:33:00:00:00:01', ip: 'ff02::1' } as const

/** An Ethernet frame with these words of 16 bits between the addresses and the payload: tags, then the type or length. */
export const ethernet = (to: string, from: string, words: readonly number[], payload: Buffer): Buffer => {
  const middle = Buffer.alloc(words.length * 2)
  words.forEach((word, n) => void middle.writeUInt16BE(word, n * 2))
  const whole = Buffer.concat([macBytes(to), macBytes(from), middle, payload])
  return whole.length >= 60 ? whole : Buffer.concat([whole, Buffer.alloc(60 - whole.length)])
}

const octets = (ip: string): Buffer => Buffer.from(ip.split('.').map(Number))

/** RFC 1071. */
function checksum(data: Buffer, start = 0): number {
  let sum = start
  for (let at = 0; at < data.length; at += 2) sum += at + 1 < data.length ? data.readUInt16BE(at) : (data[at] ?? 0) << 8
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}

export interface Ipv4 {
  from: string
  to: string
  protocol: number
  /** Of the header, multiples of 4 bytes. */
  options?: Buffer
  /** Flags and fragment offset, as they stand in the header. */
  fragment?: number
}

export function ipv4({ from, to, protocol, options = Buffer.alloc(0), fragment = 0 }: Ipv4, payload: Buffer): Buffer {
  const header = Buffer.alloc(20)
  header.writeUInt8(0x40 | (5 + options.length / 4), 0)
  header.writeUInt16BE(20 + options.length + payload.length, 2)
  header.writeUInt16BE(0x1234, 4)
  header.writeUInt16BE(fragment, 6)
  header.writeUInt8(64, 8)
  header.writeUInt8(protocol, 9)
  octets(from).copy(header, 12)
  octets(to).copy(header, 16)
  const whole = Buffer.concat([header, options])
  whole.writeUInt16BE(checksum(whole), 10)
  return Buffer.concat([whole, payload])
}

/** A datagram without checksum, which IPv4 allows. */
export function udp(from: number, to: number, data: Buffer): Buffer {
  const header = Buffer.alloc(8)
  header.writeUInt16BE(from, 0)
  header.writeUInt16BE(to, 2)
  header.writeUInt16BE(8 + data.length, 4)
  return Buffer.concat([header, data])
}

/** ARP for IPv4 over Ethernet (RFC 826). */
export function arp(operation: 1 | 2, mac: string, ip: string, target: string): Buffer {
  const head = Buffer.from([0, 1, 8, 0, 6, 4, 0, operation])
  return Buffer.concat([head, macBytes(mac), octets(ip), Buffer.alloc(6), octets(target)])
}

/** The address that a device makes of its MAC (RFC 4291, appendix A). */
export function linkLocal(mac: string): string {
  const bytes = macBytes(mac)
  bytes[0] = (bytes[0] ?? 0) ^ 2
  const id = Buffer.concat([bytes.subarray(0, 3), Buffer.from([0xff, 0xfe]), bytes.subarray(3)])
  return `fe80::${id.toString('hex').replace(/(....)(?=.)/g, '$1:')}`
}

/** All 16 bytes of an IPv6 address without an embedded IPv4 one. */
export function bytesOf(ip: string): Buffer {
  const [head = '', tail] = ip.split('::')
  const words = (text: string) => (text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16)))
  const [first, last] = [words(head), words(tail ?? '')]
  const all = [...first, ...Array<number>(tail === undefined ? 0 : 8 - first.length - last.length).fill(0), ...last]
  const bytes = Buffer.alloc(16)
  all.forEach((word, n) => void bytes.writeUInt16BE(word, n * 2))
  return bytes
}

/** `next`: the protocol of what follows the fixed header. */
export function ipv6(from: string, to: string, next: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(40)
  header.writeUInt32BE(0x60000000, 0)
  header.writeUInt16BE(payload.length, 4)
  header.writeUInt8(next, 6)
  header.writeUInt8(255, 7)
  bytesOf(from).copy(header, 8)
  bytesOf(to).copy(header, 24)
  return Buffer.concat([header, payload])
}

/** ICMPv6 with its checksum over the pseudo header (RFC 4443 §2.3). */
export function icmpv6(from: string, to: string, type: number, body: Buffer): Buffer {
  const message = Buffer.concat([Buffer.from([type, 0, 0, 0]), body])
  const pseudo = Buffer.alloc(40)
  bytesOf(from).copy(pseudo, 0)
  bytesOf(to).copy(pseudo, 16)
  pseudo.writeUInt32BE(message.length, 32)
  pseudo.writeUInt8(58, 39)
  message.writeUInt16BE(checksum(Buffer.concat([pseudo, message])), 2)
  return message
}

/** A segment or datagram behind an LLC/SNAP header (IEEE 802.2, RFC 1042): length, AA AA 03, OUI, type. */
export const snap = (
  to: string,
  from: string,
  oui: number,
  type: number,
  payload: Buffer,
  tags: readonly number[] = [],
): Buffer => {
  const head = Buffer.from([0xaa, 0xaa, 3, oui >> 16, (oui >> 8) & 0xff, oui & 0xff, type >> 8, type & 0xff])
  return ethernet(to, from, [...tags, head.length + payload.length], Buffer.concat([head, payload]))
}
