/** One line of the tables: a frame, where it comes by, and what shall become of it. */
import { macBytes } from '../../../../netlink/inet.ts'
import { STAMP, STAMP_ROUTED } from '../../../../numbers.ts'
import type { Hook } from '../../maps.ts'
import type { ReasonName } from '../../reason.ts'
import { ethernet, ipv4, PROTOCOL, type Tag, TYPE, udp } from '../packet.ts'
import type { Packet, Played } from '../stage.ts'
import { MAC, PORT, type PortName, type World } from '../world.ts'

export interface Row {
  name: string
  /** Changes the world before the frame comes. */
  given?: (world: World) => void
  packet: Packet
  /** Only what is named is compared; `reasons` is none unless named. */
  want: Partial<Played>
}

/** Builds the rows of one hook. */
export function rowsAt(hook: Hook) {
  return (name: string, port: PortName, data: Buffer, want: Partial<Played>, more: More = {}): Row => {
    const { given, ...packet } = more
    return { name, packet: { hook, ifindex: PORT[port], data, ...packet }, want, ...(given && { given }) }
  }
}
type More = Partial<Omit<Packet, 'hook' | 'ifindex' | 'data'>> & Pick<Row, 'given'>

/** To the bridge, stamped. */
export const pass = (net: number, routed = false): Partial<Played> => ({ verdict: 'pass', mark: stamp(net, routed) })
/** Past the bridge, stamped. */
export const redirect = (port: PortName, net: number, routed = false): Partial<Played> => ({
  verdict: 'redirect',
  to: PORT[port],
  mark: stamp(net, routed),
})
export const drop = (...reasons: ReasonName[]): Partial<Played> => ({ verdict: 'drop', reasons })
export const stamp = (net: number, routed = false): number => STAMP + (routed ? STAMP_ROUTED : 0) + net
/** To the bridge, of no net, stamped as what came in by an uplink. */
export const fromOutside = pass(0, true)

/** A DHCP message up to its client hardware address and beyond. */
export const asking = (mac: string): Buffer => Buffer.concat([Buffer.alloc(28), macBytes(mac), Buffer.alloc(206)])

/** A UDP datagram with nothing special about it. */
export function datagram(from: string, to: string, fromIp: string, toIp: string, tags: readonly Tag[] = []): Buffer {
  return ethernet(to, from, TYPE.ipv4, ipv4(fromIp, toIp, PROTOCOL.udp, udp(1000, 2000)), tags)
}

/** An IPv4 frame between a1 and a2 with a payload of its own. */
export function fromA1(packet: Uint8Array, to: string = MAC.a2): Buffer {
  return ethernet(to, MAC.a1, TYPE.ipv4, packet)
}
