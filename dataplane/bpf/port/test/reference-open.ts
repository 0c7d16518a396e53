/** The reference's judgment of ports that belong to no net. */
import { OUTSIDE_TIMES } from '../numbers.ts'
import type { ReasonName } from '../reason.ts'
import { type Frame, skipExtensions } from './frame.ts'
import { TYPE } from './packet.ts'
import { hostRange } from './ranges.ts'
import type { World } from './world.ts'

/** A MAC that lives behind an uplink, unless a binding names this port for it. */
export function judgeOutside(world: World, ifindex: number, { from, vids }: Frame): ReasonName | undefined {
  const heard = world.outside.get(from)
  if (!heard?.recent || heard.times < OUTSIDE_TIMES) return undefined
  const row = world.macbinds.get(from)
  const isNamed = row?.ifindex === ifindex && (row.vlan === 0 || row.vlan === vids[0])
  return isNamed ? undefined : 'outside_mac'
}

/** What the node does not take from an open port. */
export function judgeOpen(world: World, frame: Partial<Frame>, data: Buffer): ReasonName | undefined {
  if (world.closed) return 'open_port'
  if (frame.type === TYPE.ipv6) return judgeOpen6(data.subarray(frame.at))
  if (frame.ports?.[1] === 68) return 'dhcp_server'
  const range = frame.target ? hostRange(world, frame.target) : undefined
  return range && !range.routed ? 'open_port' : undefined
}

function judgeOpen6(packet: Buffer): ReasonName | undefined {
  const upper = skipExtensions(packet)
  if (upper === undefined) return 'short'
  const { next, payload } = upper
  if ([0, 43, 60, 44, 51].includes(next)) return 'ipv6_hidden'
  if (next === 58) {
    if (payload.length < 1) return 'short'
    return payload[0] === 134 || payload[0] === 137 ? 'ipv6_router' : undefined
  }
  if (next !== 17) return undefined
  if (payload.length < 4) return 'short'
  return payload.readUInt16BE(2) === 546 ? 'ipv6_router' : undefined
}
