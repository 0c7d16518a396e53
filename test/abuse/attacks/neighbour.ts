/** What a host on the uplink's wire sends to a guest behind the node, to get by a rule that drops it. */
import { ipv4, udp } from './packets.ts'

export interface Probe {
  what: string
  /** Whole IPv4 packets, in the order in which they are sent. */
  packets(from: string, to: string, mark: Buffer): Buffer[]
  /** false: the kernel passes none of it even where no rule stands. */
  passes?: false
}

const [ICMP, IPIP, TCP, UDP, IPV6, GRE, ESP, SCTP] = [1, 4, 6, 17, 41, 47, 50, 132]
const FLAGS = { fin: 1, syn: 2, rst: 4, push: 8, ack: 16, urgent: 32 } as const

/** A segment without checksum: who is to drop it does not look that far. */
function tcp(flags: number, data: Buffer): Buffer {
  const header = Buffer.alloc(20)
  header.writeUInt16BE(40_000, 0)
  header.writeUInt16BE(80, 2)
  header.writeUInt32BE(1, 4)
  header.writeUInt8(5 << 4, 12)
  header.writeUInt8(flags, 13)
  header.writeUInt16BE(1024, 14)
  return Buffer.concat([header, data])
}

const whole =
  (protocol: number, payload: (mark: Buffer) => Buffer, options?: Buffer) =>
  (from: string, to: string, mark: Buffer) => [ipv4({ from, to, protocol, ...(options && { options }) }, payload(mark))]
const datagram = (mark: Buffer) => udp(40_000, 53, Buffer.concat([mark, mark, mark]))
/** `cuts`: where the payload is cut, multiples of 8; `order` of the pieces. */
const fragments =
  (cuts: readonly number[], order: (pieces: Buffer[]) => Buffer[] = (it) => it) =>
  (from: string, to: string, mark: Buffer) => {
    const payload = datagram(mark)
    const ends = [...cuts, payload.length]
    const pieces = ends.map((end, n) => {
      const begin = n === 0 ? 0 : (ends[n - 1] ?? 0)
      const more = n < ends.length - 1 ? 0x2000 : 0
      return ipv4({ from, to, protocol: UDP, fragment: more | (begin / 8) }, payload.subarray(begin, end))
    })
    return order(pieces)
  }
const segment = (what: string, flags: number): Probe => ({
  what: `a segment with ${what}`,
  packets: whole(TCP, (mark) => tcp(flags, mark)),
})
const bare = (what: string, protocol: number): Probe => ({
  what,
  packets: whole(protocol, (mark) => Buffer.concat([Buffer.alloc(16), mark])),
})
const optioned = (what: string, options: number[], passes?: false): Probe => ({
  what: `a datagram with ${what}`,
  packets: whole(UDP, datagram, Buffer.from(options)),
  ...(passes === false && { passes }),
})

export const probes: readonly Probe[] = [
  { what: 'a datagram', packets: whole(UDP, datagram) },
  { what: 'a datagram from port 53', packets: whole(UDP, (mark) => udp(53, 53, mark)) },
  { what: 'a datagram from port 67 to 68', packets: whole(UDP, (mark) => udp(67, 68, mark)) },
  segment('SYN', FLAGS.syn),
  segment('SYN and ACK', FLAGS.syn | FLAGS.ack),
  segment('ACK', FLAGS.ack),
  segment('FIN', FLAGS.fin),
  segment('RST', FLAGS.rst),
  segment('no flag', 0),
  segment('every flag', 63),
  segment('SYN and FIN', FLAGS.syn | FLAGS.fin),
  {
    what: 'an echo request',
    packets: whole(ICMP, (mark) => Buffer.concat([Buffer.from([8, 0, 0, 0, 0, 1, 0, 1]), mark])),
  },
  {
    what: 'an error about nothing',
    packets: whole(ICMP, (mark) => Buffer.concat([Buffer.from([3, 1, 0, 0, 0, 0, 0, 0]), mark, mark, mark])),
  },
  { what: 'fragments', packets: fragments([24]) },
  { what: 'fragments in reversed order', packets: fragments([24], (pieces) => pieces.reverse()) },
  { what: 'fragments of eight bytes', packets: fragments([8, 16, 24]) },
  { what: 'fragments twice', packets: fragments([24], (pieces) => pieces.flatMap((piece) => [piece, piece])) },
  optioned('no-operations', [1, 1, 1, 0]),
  optioned('router alert', [148, 4, 0, 0]),
  optioned('record route', [7, 7, 4, 0, 0, 0, 0, 0]),
  optioned('loose source route', [131, 7, 4, 192, 0, 2, 1, 0], false),
  bare('IPv4 in IPv4', IPIP),
  bare('IPv6 in IPv4', IPV6),
  bare('GRE', GRE),
  bare('ESP', ESP),
  bare('SCTP', SCTP),
  bare('a protocol that nobody has', 253),
]
