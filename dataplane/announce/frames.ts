/**
 * Frames by which a node tells its neighbours that an address is at its MAC from now on: gratuitous ARP (RFC 5227 section
 * 2.3, RFC 5944 section 4.6) and unsolicited neighbour advertisements (RFC 4861 sections 4.4 and 7.2.6).
 */
import { addressBytes, macBytes } from '../netlink/inet.ts'

export const ETH_P_ARP = 0x0806
export const ETH_P_IPV6 = 0x86dd
const ETH_P_IP = 0x0800
const ARPHRD_ETHER = 1
const ARPOP_REQUEST = 1
const ARPOP_REPLY = 2
const IPPROTO_ICMPV6 = 58
const NEIGHBOUR_ADVERTISEMENT = 136
const FLAG_ROUTER = 0x80000000
const FLAG_OVERRIDE = 0x20000000
const TARGET_LINK_LAYER_ADDRESS = 2
const LEAST_FRAME = 60

const EVERYBODY = Buffer.from('ffffffffffff', 'hex')
/** ff02::1, and the MAC that it is sent to (RFC 2464 section 7). */
const ALL_NODES = addressBytes('ff02::1')
const ALL_NODES_MAC = Buffer.from('333300000001', 'hex')

/**
 * Both forms are in use and some neighbours heed only one of them: a request, which asks for the address that it comes
 * from, or (`reply`) an answer that nobody asked for. `address` is IPv4.
 */
export function gratuitousArp(address: string, mac: string, reply = false): Buffer {
  const [own, ip] = [macBytes(mac), addressBytes(address)]
  const frame = Buffer.alloc(LEAST_FRAME)
  ethernet(frame, EVERYBODY, own, ETH_P_ARP)
  frame.writeUInt16BE(ARPHRD_ETHER, 14)
  frame.writeUInt16BE(ETH_P_IP, 16)
  frame.writeUInt8(6, 18)
  frame.writeUInt8(4, 19)
  frame.writeUInt16BE(reply ? ARPOP_REPLY : ARPOP_REQUEST, 20)
  frame.set(own, 22)
  frame.set(ip, 28)
  // RFC 5944: a reply carries the MAC here too, a request need not.
  if (reply) frame.set(own, 32)
  frame.set(ip, 38)
  return frame
}

/**
 * `address` is IPv6. `router`: whether the node forwards; a neighbour that is told otherwise stops using the address as a
 * router (RFC 4861 section 7.2.5).
 */
export function neighbourAdvertisement(address: string, mac: string, router: boolean): Buffer {
  const [own, ip] = [macBytes(mac), addressBytes(address)]
  const message = Buffer.alloc(32)
  message.writeUInt8(NEIGHBOUR_ADVERTISEMENT, 0)
  message.writeUInt32BE(FLAG_OVERRIDE + (router ? FLAG_ROUTER : 0), 4)
  message.set(ip, 8)
  message.writeUInt8(TARGET_LINK_LAYER_ADDRESS, 24)
  // In units of 8 bytes.
  message.writeUInt8(1, 25)
  message.set(own, 26)
  const frame = Buffer.alloc(14 + 40 + message.length)
  ethernet(frame, ALL_NODES_MAC, own, ETH_P_IPV6)
  frame.writeUInt8(0x60, 14)
  frame.writeUInt16BE(message.length, 18)
  frame.writeUInt8(IPPROTO_ICMPV6, 20)
  // Whatever came from further away is not heeded (section 7.1.2).
  frame.writeUInt8(255, 21)
  frame.set(ip, 22)
  frame.set(ALL_NODES, 38)
  const pseudo = Buffer.alloc(8)
  pseudo.writeUInt32BE(message.length, 0)
  pseudo.writeUInt8(IPPROTO_ICMPV6, 7)
  message.writeUInt16BE(checksum(Buffer.concat([ip, ALL_NODES, pseudo, message])), 2)
  frame.set(message, 54)
  return frame
}

function ethernet(frame: Buffer, to: Buffer, from: Buffer, type: number): void {
  frame.set(to, 0)
  frame.set(from, 6)
  frame.writeUInt16BE(type, 12)
}

/** RFC 1071; `bytes` are an even number. */
function checksum(bytes: Buffer): number {
  let sum = 0
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}
