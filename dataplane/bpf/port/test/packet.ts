/** Frames of a test's own, built field by field, right or wrong as asked. Nothing is padded. */
import { addressBytes, macBytes } from '../../../netlink/inet.ts'

export const BROADCAST = 'ff:ff:ff:ff:ff:ff'
export const NO_MAC = '00:00:00:00:00:00'
export const TYPE = { ipv4: 0x0800, arp: 0x0806, rarp: 0x8035, ipv6: 0x86dd, vlan: 0x8100, service: 0x88a8 } as const
export const PROTOCOL = { icmp: 1, tcp: 6, udp: 17, icmp6: 58 } as const

export interface Tag {
  vid: number
  /** Default 0x8100. */
  type?: number
}

/** An Ethernet frame; `tags` from the outside in. */
export function ethernet(
  to: string,
  from: string,
  type: number,
  payload: Uint8Array,
  tags: readonly Tag[] = [],
): Buffer {
  const head = tags.map(({ vid, type = TYPE.vlan }) => numbers16(type, vid))
  return Buffer.concat([macBytes(to), macBytes(from), ...head, numbers16(type), payload])
}

/** An IPv4 packet with a right checksum. `fragment` is the whole field: flags and offset. */
export function ipv4(
  from: string,
  to: string,
  protocol: number,
  payload: Uint8Array,
  asked: { fragment?: number; options?: Uint8Array; version?: number; words?: number } = {},
): Buffer {
  const { fragment = 0, options = Buffer.alloc(0), version = 4 } = asked
  const { words = 5 + options.length / 4 } = asked
  const header = Buffer.alloc(20)
  header[0] = (version << 4) | words
  header.writeUInt16BE(20 + options.length + payload.length, 2)
  header.writeUInt16BE(fragment, 6)
  header[8] = 64
  header[9] = protocol
  header.set(addressBytes(from), 12)
  header.set(addressBytes(to), 16)
  header.writeUInt16BE(checksum(Buffer.concat([header, options])), 10)
  return Buffer.concat([header, options, payload])
}

/** Without checksum, which IPv4 allows. */
export function udp(from: number, to: number, payload: Uint8Array = Buffer.alloc(18)): Buffer {
  return Buffer.concat([numbers16(from, to, 8 + payload.length, 0), payload])
}

export function tcp(payload: Uint8Array, words = 5): Buffer {
  const header = Buffer.alloc(words * 4)
  header.writeUInt16BE(1000, 0)
  header.writeUInt16BE(2000, 2)
  header[12] = words << 4
  header[13] = 0x10
  return Buffer.concat([header, payload])
}

/** ARP or RARP for Ethernet and IPv4; `hardware` and `sizes` to say something else. */
export function arp(
  operation: number,
  sender: { mac: string; ip: string },
  target: { mac?: string; ip: string },
  { hardware = 1, protocol = TYPE.ipv4 as number, sizes = 0x0604 } = {},
): Buffer {
  return Buffer.concat([
    numbers16(hardware, protocol, sizes, operation),
    macBytes(sender.mac),
    addressBytes(sender.ip),
    macBytes(target.mac ?? NO_MAC),
    addressBytes(target.ip),
  ])
}

/** `length` is the payload length that the header claims. */
export function ipv6(from: string, to: string, next: number, payload: Uint8Array, length = payload.length): Buffer {
  const head = Buffer.from([0x60, 0, 0, 0, 0, 0, next, 255])
  head.writeUInt16BE(length, 4)
  return Buffer.concat([head, addressBytes(from), addressBytes(to), payload])
}

/** An extension header of 8 bytes, or a fragment header when `next` follows one. */
export function extension(next: number, payload: Uint8Array, length = 0): Buffer {
  return Buffer.concat([Buffer.from([next, length, 1, 4, 0, 0, 0, 0]), Buffer.alloc(length * 8), payload])
}

/** ICMPv6 of the neighbour discovery: type, target (none for a router solicitation) and options. */
export function discovery(type: number, target: string | undefined, ...options: Uint8Array[]): Buffer {
  const head = Buffer.from([type, 0, 0, 0, 0, 0, 0, 0])
  return Buffer.concat([head, target ? addressBytes(target) : Buffer.alloc(0), ...options])
}

/** Option 1 (source) or 2 (target link-layer address). */
export function linkOption(type: number, mac: string): Buffer {
  return Buffer.concat([Buffer.from([type, 1]), macBytes(mac)])
}

function numbers16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2)
  values.forEach((value, n) => {
    bytes.writeUInt16BE(value & 0xffff, n * 2)
  })
  return bytes
}

/** RFC 1071. */
function checksum(bytes: Buffer): number {
  let sum = 0
  for (let at = 0; at + 1 < bytes.length; at += 2) sum += bytes.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}
