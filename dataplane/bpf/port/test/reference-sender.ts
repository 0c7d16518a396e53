/** The reference's judgment of what a bound MAC says by which address. */
import { macText } from '../../../netlink/inet.ts'
import { NET_DHCP } from '../../../numbers.ts'
import type { ReasonName } from '../reason.ts'
import { eui64, type Frame, judgeIpv6 } from './frame.ts'
import { TYPE } from './packet.ts'
import type { World } from './world.ts'

export interface Sender {
  net: number
  slot?: number
  routed: boolean
}

/** By which address the sender speaks; a routed one is noted in `sender`. */
export function judgeAddress(
  world: World,
  data: Buffer,
  frame: Frame,
  own: string,
  sender: Sender,
): ReasonName | undefined {
  const owns = (address: string) => {
    const row = world.addresses.get(`${sender.net}/${address}`)
    if (row?.slot !== sender.slot) return false
    sender.routed = row?.routed ?? false
    return true
  }
  switch (frame.type) {
    case TYPE.ipv6:
      return judgeIpv6(data, frame.at, { mac: frame.from, owns: (one) => ownsLink(world, sender, frame.from, one) })
    case TYPE.arp:
    case TYPE.rarp:
      if (frame.arpMac !== frame.from) return 'arp'
      return frame.sender === undefined || frame.sender === own || owns(frame.sender) ? undefined : 'arp'
    case TYPE.ipv4: {
      const dhcp = (world.nets.get(sender.net)?.flags ?? 0) & NET_DHCP ? judgeDhcp(frame, data) : undefined
      if (dhcp) return dhcp
      const [from, to] = frame.ports ?? []
      if (frame.sender === undefined) return from === 68 && to === 67 && !frame.fragment ? undefined : 'zero_address'
      return frame.sender === own || owns(frame.sender) ? undefined : 'address'
    }
    default:
      return undefined
  }
}

/** In a net that the node serves. */
function judgeDhcp({ from, at, payload, fragment, laterFragment }: Frame, data: Buffer): ReasonName | undefined {
  if (payload === undefined || payload.length < 8) return undefined
  const to = payload.readUInt16BE(2)
  if (laterFragment) {
    const carried = data.readUInt16BE(at + 2) - (data.length - at - payload.length)
    return to === 68 && payload.readUInt16BE(4) === carried ? 'dhcp_server' : undefined
  }
  if (to === 68) return 'dhcp_server'
  if (to !== 67) return undefined
  if (fragment) return 'dhcp_client'
  const asking = payload.subarray(36, 42)
  return asking.length < 6 || macText(asking) === from ? undefined : 'dhcp_client'
}

/** Whether the sender has this link-local address, from now on if it was nobody's. */
function ownsLink(world: World, { net, slot = 0 }: Sender, mac: string, address: Buffer): boolean {
  const id = address.toString('hex', 8)
  if (address.toString('hex', 0, 8) !== 'fe80000000000000') return false
  if (id === eui64(mac)) return true
  if (id.slice(6, 10) === 'fffe' || id === '0000000000000000') return false
  const holder = world.links.get(`${net}/${id}`)
  const before = world.claimed.get(slot)
  if (holder !== undefined && holder !== slot && world.claimed.get(holder) === id && world.truth.has(holder))
    return false
  world.links.set(`${net}/${id}`, slot)
  world.claimed.set(slot, id)
  if (before !== undefined && before !== id && world.links.get(`${net}/${before}`) === slot)
    world.links.delete(`${net}/${before}`)
  return true
}
