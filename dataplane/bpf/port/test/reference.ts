/**
 * What the programs on br-work shall do with a frame, said once more: plain, slow, and written from the model rather than
 * from the C. It changes the world as the programs change their maps.
 */
import {
  LOCK_HARD,
  NET_DHCP,
  NET_HOST_GATEWAY,
  NET_ROUTED,
  ROUTED_NET_BASE,
  STAMP,
  STAMP_MASK,
  STAMP_NET,
  STAMP_ROUTED,
  TENANT_BURST_BYTES,
  TENANT_SMALL_BYTES,
} from '../../../numbers.ts'
import type { ReasonName } from '../reason.ts'
import { type Frame, isMulticast, isReserved, judgeIpv6, readFrame, readLink } from './frame.ts'
import { NO_MAC, TYPE } from './packet.ts'
import type { Packet, Played } from './stage.ts'
import type { World } from './world.ts'

/** What becomes of a packet. `data` and the tag beside it are not told: tables say them row by row. */
export type Outcome = Pick<Played, 'verdict' | 'reasons' | 'to' | 'mark'>

/** MTU of every interface of the tests. */
const MTU = 1500

/** Plays `packet` and changes `world` as the maps will be. */
export function refer(world: World, packet: Packet): Outcome {
  const { hook, mark = 0 } = packet
  const soft: ReasonName[] = []
  const drop = (reason: ReasonName): Outcome => ({ verdict: 'drop', reasons: [reason, ...soft], to: 0, mark })
  const known = world.ports.has(packet.ifindex)
  if (!hook.startsWith('host') && !known) return drop('no_port')
  switch (hook) {
    case 'port_in':
      return portIn(world, packet, soft, drop)
    case 'port_out':
      return portOut(world, packet, drop)
    case 'uplink_in':
      return uplinkIn(world, packet, drop)
    case 'uplink_out':
      return uplinkOut(world, packet, drop)
    case 'host_in':
      return hostIn(world, packet, drop)
    case 'host_out':
      return hostOut(world, packet, drop)
  }
}

type Drop = (reason: ReasonName) => Outcome

interface Sender {
  net: number
  slot?: number
  routed: boolean
}

function portIn(world: World, packet: Packet, soft: ReasonName[], drop: Drop): Outcome {
  const read = readFrame(packet.data, packet.beside ?? 0)
  if ('reason' in read) return drop(read.reason)
  const { frame } = read
  if (frame.from === NO_MAC || isMulticast(frame.from)) return drop('source_mac')
  if (isReserved(frame.to)) return drop('reserved')
  const vlan = judgeVlans(world, frame)
  if (vlan) return drop(vlan)
  const sender = judgeSender(world, packet, frame, soft)
  if (typeof sender === 'string') return drop(sender)
  const tenant = judgeTenant(world, packet, sender.net, 'up')
  if (tenant) return drop(tenant)
  const mark = STAMP + (sender.routed ? STAMP_ROUTED : 0) + sender.net
  return forward(world, packet, frame, sender.net, mark, soft)
}

function judgeVlans(world: World, frame: Frame): ReasonName | undefined {
  const policies = frame.vids.map((vid) => world.vlans.get(vid))
  if (policies.some((policy) => policy?.locked)) return 'vlan_locked'
  return policies.some((policy) => policy?.net) ? 'vlan_of_net' : undefined
}

function judgeSender(world: World, { ifindex, data }: Packet, frame: Frame, soft: ReasonName[]): Sender | ReasonName {
  const ports = world.ports.get(ifindex) ?? 0
  const net = ports === 0 ? (world.netOfMac.get(frame.from) ?? 0) : ports
  if (net === 'ambiguous') return 'ambiguous'
  const binding = () => judgeMacbind(world, ifindex, frame, soft)
  if (net === 0) {
    if (frame.sender && inAny(world.privateRanges, frame.sender)) return 'private_address'
    return binding() ?? { net, routed: false }
  }
  const endpoint = world.endpoints.get(`${net}/${frame.from}`)
  if (!endpoint) return binding() ?? 'unbound'
  const truth = world.truth.get(endpoint.slot)
  if (truth?.mac !== frame.from) return 'stale'
  const { home, slot } = endpoint
  if (home !== 0 && home !== ifindex && world.ports.get(home) === net) return 'home'
  const sender: Sender = { net, slot, routed: truth.routed }
  const reason = judgeAddress(world, data, frame, endpoint.address, sender)
  if (reason) return reason
  world.ports.set(ifindex, net)
  endpoint.home = ifindex
  return sender
}

/** By which address the sender speaks; a routed one is noted in `sender`. */
function judgeAddress(world: World, data: Buffer, frame: Frame, own: string, sender: Sender): ReasonName | undefined {
  const owns = (address: string) => {
    const row = world.addresses.get(`${sender.net}/${address}`)
    if (row?.slot !== sender.slot) return false
    sender.routed = row?.routed ?? false
    return true
  }
  switch (frame.type) {
    case TYPE.ipv6:
      return judgeIpv6(data, frame.at, frame.from)
    case TYPE.arp:
    case TYPE.rarp:
      if (frame.arpMac !== frame.from) return 'arp'
      return frame.sender === undefined || frame.sender === own || owns(frame.sender) ? undefined : 'arp'
    case TYPE.ipv4: {
      const [from, to] = frame.ports ?? []
      if (from === 67 && to === 68 && (world.nets.get(sender.net)?.flags ?? 0) & NET_DHCP) return 'dhcp_server'
      if (frame.sender === undefined) return from === 68 && to === 67 && !frame.fragment ? undefined : 'zero_address'
      return frame.sender === own || owns(frame.sender) ? undefined : 'address'
    }
    default:
      return undefined
  }
}

function judgeMacbind(world: World, ifindex: number, frame: Frame, soft: ReasonName[]): ReasonName | undefined {
  const lock = Math.max(world.locks.get(ifindex) ?? 0, world.locks.get(0) ?? 0)
  const row = world.macbinds.get(frame.from)
  const here = row && (row.ifindex === 0 || row.ifindex === ifindex) && (row.vlan === 0 || row.vlan === frame.vids[0])
  if (lock === 0 || here) return undefined
  if (lock === LOCK_HARD) return 'macbind'
  soft.push('macbind_soft')
  return undefined
}

/** Past the bridge where the destination is known, else to the bridge. */
function forward(
  world: World,
  { ifindex, data, gsoSize = 0 }: Packet,
  frame: Frame,
  net: number,
  mark: number,
  soft: ReasonName[] = [],
): Outcome {
  const pass: Outcome = { verdict: 'pass', reasons: soft, to: 0, mark }
  const drop = (reason: ReasonName): Outcome => ({ verdict: 'drop', reasons: [reason, ...soft], to: 0, mark })
  if (net === 0 || isMulticast(frame.to)) return pass
  const endpoint = world.endpoints.get(`${net}/${frame.to}`)
  const to = endpoint ? endpoint.home : (world.far.get(`${net}/${frame.to}`) ?? 0)
  if (to === 0) return pass
  if (to === ifindex) return drop('hairpin')
  const netThere = world.ports.get(to)
  const strict = endpoint !== undefined || world.kinds.get(to) === 'overlay'
  if (netThere === undefined || (strict && netThere !== net)) return pass
  if (gsoSize === 0 && data.length - (frame.at - 14) > MTU + 14) return drop('too_long')
  return { ...pass, verdict: 'redirect', to }
}

/** A frame passes while less than the burst is owed, a small one less than two, and is owed then itself. Frames that are still to be cut: accounts.test.ts. */
function judgeTenant(world: World, packet: Packet, net: number, way: 'up' | 'down'): ReasonName | undefined {
  const row = world.tenantNets.get(net)
  if (row?.blocked) return 'tenant_blocked'
  const owed = row?.rate ? world.owed.get(row.bucket) : undefined
  if (owed === undefined) return undefined
  const bytes = packet.data.length + (packet.beside ? 4 : 0)
  if (owed[way] >= (bytes > TENANT_SMALL_BYTES ? 1 : 2) * TENANT_BURST_BYTES) return 'tenant_limit'
  owed[way] += bytes
  return undefined
}

function portOut(world: World, packet: Packet, drop: Drop): Outcome {
  const { ifindex, mark = 0 } = packet
  if (!isStamped(mark)) return drop('unstamped')
  if ((mark & STAMP_NET) !== world.ports.get(ifindex)) return drop('other_net')
  const tenant = judgeTenant(world, packet, mark & STAMP_NET, 'down')
  if (tenant) return drop(tenant)
  return { verdict: 'pass', reasons: [], to: 0, mark: 0 }
}

function uplinkIn(world: World, packet: Packet, drop: Drop): Outcome {
  const { data, ifindex, beside = 0 } = packet
  const read = readLink(data, beside)
  if ('reason' in read) return drop(read.reason)
  const { frame } = read
  if (frame.from === NO_MAC || isMulticast(frame.from)) return drop('source_mac')
  const vlan = judgeVlans(world, frame)
  if (vlan === 'vlan_locked' || (vlan && world.kinds.get(ifindex) === 'overlay')) return drop(vlan)
  const [outer = 0] = frame.vids
  const ofTag = frame.vids.length > 0 ? (world.vlans.get(outer)?.net ?? 0) : 0
  const own = world.ports.get(ifindex) ?? 0
  const net = own || ofTag
  if (world.tenantNets.get(net)?.blocked) return drop('tenant_blocked')
  if (net) world.far.set(`${net}/${frame.from}`, ifindex)
  if (own !== 0 || ofTag === 0) return forward(world, packet, frame, net, STAMP + net)
  // The outer tag is taken away, and one behind it then stands beside the frame.
  const popped = { ...packet, data: Buffer.concat([data.subarray(0, 12), data.subarray(frame.at - 2)]) }
  return forward(world, popped, { ...frame, at: 14 }, net, STAMP + net)
}

function uplinkOut(world: World, { ifindex, data, from = 0, mark = 0 }: Packet, drop: Drop): Outcome {
  const read = readLink(data, 0)
  const done: Outcome = { verdict: 'pass', reasons: [], to: 0, mark: 0 }
  if (!isStamped(mark)) return mark === 0 && isReserved(read.frame.to ?? '') ? done : drop('unstamped')
  const net = mark & STAMP_NET
  const own = world.ports.get(ifindex) ?? 0
  const ways = [world.kinds.get(from), world.kinds.get(ifindex)]
  if (ways[0] !== undefined && ways.includes('overlay')) return drop('transit')
  if (world.tenantNets.get(net)?.blocked) return drop('tenant_blocked')
  if (net === own) return done
  if (own !== 0 || ways[1] === 'overlay') return drop('other_net')
  const vlan = world.nets.get(net)?.vlan ?? 0
  if (vlan === 0) return drop('no_vlan')
  return world.vlans.get(vlan)?.locked ? drop('vlan_locked') : done
}

function hostIn(world: World, { data, beside = 0, mark = 0 }: Packet, drop: Drop): Outcome {
  const pass: Outcome = { verdict: 'pass', reasons: [], to: 0, mark }
  if (!isStamped(mark)) return drop('unstamped')
  const net = mark & STAMP_NET
  const read = readFrame(data, beside)
  if (net === 0) {
    const { sender, vids = [] } = read.frame
    return sender && vids.length === 0 && hostRange(world, sender) ? drop('private_address') : pass
  }
  if ('reason' in read) return drop(read.reason)
  return isForHost(world, read.frame, net, (mark & STAMP_ROUTED) !== 0) ? pass : drop('host')
}

function isForHost(world: World, frame: Frame, net: number, routed: boolean): boolean {
  const ofOneNic: { gateway: string; flags: number } = { gateway: '', flags: NET_ROUTED }
  const row = net >= ROUTED_NET_BASE ? ofOneNic : world.nets.get(net)
  if (!row || frame.vids.length > 0) return false
  const isGateway = (row.flags & NET_HOST_GATEWAY) !== 0
  const routes = (row.flags & NET_ROUTED) !== 0
  if (frame.type === TYPE.arp)
    return (isGateway && frame.target === row.gateway) || (routes && frame.target === '169.254.0.1')
  return frame.type === TYPE.ipv4 && (isGateway || (routes && routed))
}

function hostOut(world: World, packet: Packet, drop: Drop): Outcome {
  const { data, beside = 0, mark = 0 } = packet
  const read = readFrame(data, beside)
  if ('reason' in read && read.reason === 'tags') return drop('tags')
  // What cannot be read beyond its tags belongs to no net.
  const frame: Frame = { to: '', from: '', vids: [], type: 0, at: 14, fragment: false, ...read.frame }
  const vlan = judgeVlans(world, frame)
  if (vlan) return drop(vlan)
  const range = frame.vids.length === 0 && frame.type !== TYPE.rarp ? rangeOfTarget(world, frame) : undefined
  const net = range?.net ?? 0
  const from = isStamped(mark) ? mark & STAMP_NET : 0
  const bothRouted = range?.routed === true && (mark & STAMP_ROUTED) !== 0
  if (from !== 0 && net !== 0 && from !== net && !bothRouted) return drop('host_routing')
  return forward(world, packet, frame, net, STAMP + net)
}

function rangeOfTarget(world: World, { sender, target }: Frame): World['hostRanges'][number] | undefined {
  const there = target && hostRange(world, target)
  if (there) return there
  const toEverybody = target === undefined || Number(target.split('.')[0]) >= 224
  return toEverybody && sender ? hostRange(world, sender) : undefined
}

const isStamped = (mark: number): boolean => (mark & STAMP_MASK) >>> 0 === STAMP

/** The longest range that holds the address. */
function hostRange(world: World, address: string): World['hostRanges'][number] | undefined {
  const lengthOf = (range: { prefix: string }) => Number(range.prefix.split('/')[1])
  const holding = world.hostRanges.filter(({ prefix }) => inAny([prefix], address))
  return holding.sort((a, b) => lengthOf(b) - lengthOf(a))[0]
}

function inAny(prefixes: readonly string[], address: string): boolean {
  return prefixes.some((prefix) => {
    const [base = '', length = ''] = prefix.split('/')
    const shift = 32n - BigInt(length)
    return number(base) >> shift === number(address) >> shift
  })
}

function number(address: string): bigint {
  return address.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n)
}
