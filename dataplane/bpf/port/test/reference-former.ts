/** The reference's judgment of DHCP clients whose MAC is bound no more. */
import { macText } from '../../../netlink/inet.ts'
import { NET_DHCP } from '../../../numbers.ts'
import type { ReasonName } from '../reason.ts'
import type { Frame } from './frame.ts'
import { BROADCAST } from './packet.ts'
import type { World } from './world.ts'

const FORGIVEN: readonly ReasonName[] = ['private_address', 'unbound', 'address']
const EVERYBODY = '255.255.255.255'

/** The net of which the sender asks for its former lease. */
export function formerNet(world: World, frame: Frame, data: Buffer): number | undefined {
  const { host } = world
  const row = world.formers.get(frame.from)
  const served = row && world.nets.get(row.net)
  if (host === undefined || row === undefined || served === undefined || !(served.flags & NET_DHCP)) return undefined
  if (frame.ports?.[0] !== 68 || frame.ports[1] !== 67) return undefined
  if (frame.sender !== undefined && frame.sender !== row.address) return undefined
  if (frame.target !== served.gateway && frame.target !== EVERYBODY) return undefined
  if (frame.to !== BROADCAST && frame.to !== host.mac) return undefined
  return clientOf(frame, data) === frame.from ? row.net : undefined
}

/** The same for a frame that was refused; `net` is the one that it would belong to. */
export function refusedFormer(
  world: World,
  frame: Frame,
  data: Buffer,
  net: number,
  reason: ReasonName,
): number | undefined {
  const former = FORGIVEN.includes(reason) ? formerNet(world, frame, data) : undefined
  return net === 0 || net === former ? former : undefined
}

/** Whether it is the answer to a client of net `net` that has asked by this port. */
export function answersFormer(
  world: World,
  frame: Partial<Frame>,
  data: Buffer,
  net: number,
  ifindex: number,
): boolean {
  if (frame.ports?.[0] !== 67 || frame.ports[1] !== 68) return false
  const client = clientOf(frame, data) ?? ''
  const forIt = frame.to === BROADCAST || frame.to === client
  return forIt && world.formers.get(client)?.net === net && world.askedBy.get(client) === ifindex
}

function clientOf({ vids, fragment, at = 0, payload }: Partial<Frame>, data: Buffer): string | undefined {
  if (vids?.length !== 0 || fragment || (data[at] ?? 0) % 16 !== 5 || payload === undefined) return undefined
  return payload.length < 42 ? undefined : macText(payload.subarray(36, 42))
}
