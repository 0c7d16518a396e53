/** Segments, datagrams and ICMP errors of a test's own, and whether their checksums are right. */
import { addressText } from '../../../netlink/inet.ts'
import { ipv4, ipv6, PROTOCOL } from '../../port/test/packet.ts'

/** TCP or UDP header with a payload; no checksum. */
export function segment(protocol: 'tcp' | 'udp', from: number, to: number, flags: number, payload = 0): Buffer {
  const header = Buffer.alloc(protocol === 'tcp' ? 20 : 8)
  header.writeUInt16BE(from, 0)
  header.writeUInt16BE(to, 2)
  if (protocol === 'udp') header.writeUInt16BE(8 + payload, 4)
  else {
    header.writeUInt32BE(1000, 4)
    header[12] = 0x50
    header[13] = flags
  }
  return Buffer.concat([header, Buffer.alloc(payload, 'fragmented ')])
}

const isV6 = (packet: Buffer) => (packet[0] ?? 0) >> 4 === 6
const headerOf = (packet: Buffer) => (isV6(packet) ? 40 : ((packet[0] ?? 0) & 15) * 4)
const protocolOf = (packet: Buffer) => packet[isV6(packet) ? 6 : 9] ?? 0
const checkAt = (protocol: number) => ({ [PROTOCOL.tcp]: 16, [PROTOCOL.udp]: 6 })[protocol] ?? 2

/** The packet with the checksum of its upper layer. */
export function checksummed(packet: Buffer): Buffer {
  const out = Buffer.from(packet)
  const at = headerOf(out) + checkAt(protocolOf(out))
  out.writeUInt16BE(0, at)
  out.writeUInt16BE(~upperSum(out) & 0xffff, at)
  return out
}

/** Whether the checksums of the IP header and of what is behind it are right. */
export function rightChecksums(packet: Buffer): boolean {
  const header = isV6(packet) || sum(packet.subarray(0, headerOf(packet))) === 0xffff
  return header && upperSum(packet) === 0xffff
}

function upperSum(packet: Buffer): number {
  const upper = packet.subarray(headerOf(packet), isV6(packet) ? 40 + packet.readUInt16BE(4) : packet.readUInt16BE(2))
  if (protocolOf(packet) === PROTOCOL.icmp) return sum(upper)
  const pseudo = Buffer.alloc(4)
  pseudo.writeUInt16BE(upper.length, 0)
  pseudo.writeUInt16BE(protocolOf(packet), 2)
  const addresses = isV6(packet) ? packet.subarray(8, 40) : packet.subarray(12, 20)
  return sum(Buffer.concat([addresses, pseudo, upper]))
}

function sum(bytes: Buffer): number {
  let total = 0
  for (let at = 0; at < bytes.length; at += 2) total += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
  while (total > 0xffff) total = (total & 0xffff) + (total >> 16)
  return total
}

/** Packet too big or port unreachable, which quote a packet (RFC 792, RFC 4443). */
export function icmpError(
  family: 4 | 6,
  from: string,
  to: string,
  what: 'too-big' | 'unreachable',
  quote: Buffer,
): Buffer {
  const codes = {
    4: { 'too-big': [3, 4], unreachable: [3, 3] },
    6: { 'too-big': [2, 0], unreachable: [1, 4] },
  } as const
  const header = Buffer.from([...codes[family][what], 0, 0, 0, 0, 0x05, 0x00])
  const message = Buffer.concat([header, quote])
  return checksummed(family === 4 ? ipv4(from, to, PROTOCOL.icmp, message) : ipv6(from, to, PROTOCOL.icmp6, message))
}

/** Ends of an ICMP error, and of what it quotes. */
export function portsOf(packet: Buffer): { from: string; to: string; quoted: (string | number)[] } {
  const [from, to] = endsOf(packet)
  const quote = packet.subarray(headerOf(packet) + 8)
  if (!isV6(quote) && sum(quote.subarray(0, 20)) !== 0xffff) throw new Error('the quoted header has a wrong checksum')
  const ports = [quote.readUInt16BE(headerOf(quote)), quote.readUInt16BE(headerOf(quote) + 2)]
  return { from, to, quoted: [...endsOf(quote), ...ports] }
}

function endsOf(packet: Buffer): [string, string] {
  const [from, to] = isV6(packet)
    ? [packet.subarray(8, 24), packet.subarray(24, 40)]
    : [packet.subarray(12, 16), packet.subarray(16, 20)]
  return [addressText(from), addressText(to)]
}
