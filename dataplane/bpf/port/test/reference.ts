/**
 * What the programs on br-work shall do with a frame, said once more: plain, slow, and written from the model rather than
 * from the C. It changes the world as the programs change their maps.
 */
import {
  NET_HOST_GATEWAY,
  NET_ROUTED,
  ROUTED_NET_BASE,
  STAMP,
  STAMP_MASK,
  STAMP_NET,
  STAMP_OUTSIDE,
  STAMP_ROUTED,
  TENANT_BURST_BYTES,
  TENANT_SMALL_BYTES,
} from '../../../numbers.ts'
import { CLAIM_FIRST, CLAIM_NONE } from '../numbers.ts'
import type { ReasonName } from '../reason.ts'
import { judgeMacbind, judgeNamedMacbind } from './bound.ts'
import { type Frame, isMulticast, isReserved, readFrame, readLink } from './frame.ts'
import { NO_MAC, TYPE } from './packet.ts'
import { hostRange, inAny } from './ranges.ts'
import { answersFormer, formerNet, refusedFormer } from './reference-former.ts'
import { judgeOpen, judgeOutside } from './reference-open.ts'
import { judgeAddress, type Sender } from './reference-sender.ts'
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

function portIn(world: World, packet: Packet, soft: ReasonName[], drop: Drop): Outcome {
  const read = readFrame(packet.data, packet.beside ?? 0)
  if ('reason' in read) return drop(read.reason)
  const { frame } = read
  if (frame.from === NO_MAC || isMulticast(frame.from)) return drop('source_mac')
  if (isReserved(frame.to)) return drop('reserved')
  const vlan = judgeVlans(world, frame)
  if (vlan) return drop(vlan)
  const sender = judgeSender(world, packet, frame, soft)
  if (typeof sender === 'string') {
    const net = askedAsFormer(world, packet, frame, soft, sender)
    if (net === undefined) return drop(sender)
    const tenant = judgeTenant(world, packet, net, 'up')
    if (tenant) return drop(tenant)
    world.askedBy.set(frame.from, packet.ifindex)
    return { verdict: 'redirect', reasons: soft, to: world.host?.ifindex ?? 0, mark: STAMP + net }
  }
  const tenant = judgeTenant(world, packet, sender.net, 'up')
  if (tenant) return drop(tenant)
  if (sender.net === 0 && frame.sender === undefined && formerNet(world, frame, packet.data) !== undefined)
    world.askedBy.set(frame.from, packet.ifindex)
  const mark = STAMP + (sender.routed ? STAMP_ROUTED : 0) + sender.net
  return forward(world, packet, frame, sender.net, mark, soft)
}

/** The net of a client whose request only the loss of its binding is against. */
function askedAsFormer(
  world: World,
  { ifindex, data }: Packet,
  frame: Frame,
  soft: ReasonName[],
  reason: ReasonName,
): number | undefined {
  const bound = world.netOfMac.get(frame.from)
  const net = world.ports.get(ifindex) || (bound === 'ambiguous' ? undefined : bound) || 0
  const former = refusedFormer(world, frame, data, net, reason)
  if (former === undefined || reason !== 'private_address') return former
  return judgeMacbind(world, ifindex, frame, soft) || judgeOutside(world, ifindex, frame) ? undefined : former
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
    return binding() ?? judgeOutside(world, ifindex, frame) ?? { net, routed: false }
  }
  const endpoint = world.endpoints.get(`${net}/${frame.from}`)
  if (!endpoint) return binding() ?? 'unbound'
  const truth = world.truth.get(endpoint.slot)
  if (truth?.mac !== frame.from) return 'stale'
  const { claims, home, slot } = endpoint
  const fixed = claims === CLAIM_NONE || (claims === CLAIM_FIRST && home !== 0)
  if (home !== ifindex && fixed) return 'other_port'
  if (home !== 0 && home !== ifindex && world.ports.has(home)) return 'home'
  const elsewhere = judgeNamedMacbind(world, ifindex, frame, home === ifindex, soft)
  if (elsewhere) return elsewhere
  const sender: Sender = { net, slot, routed: truth.routed }
  const reason = judgeAddress(world, data, frame, endpoint.address, sender)
  if (reason) return reason
  world.ports.set(ifindex, net)
  endpoint.home = ifindex
  return sender
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
  if (isMulticast(frame.to)) return pass
  const isTooLong = gsoSize === 0 && data.length - (frame.at - 14) > MTU + 14
  if (net === 0) {
    const overlay = world.peers.get(frame.to) ?? 0
    if (world.kinds.get(overlay) !== 'overlay' || world.ports.get(overlay) !== 0) return pass
    return isTooLong ? drop('too_long') : { ...pass, verdict: 'redirect', to: overlay }
  }
  const endpoint = world.endpoints.get(`${net}/${frame.to}`)
  const to = endpoint ? endpoint.home : (world.far.get(`${net}/${frame.to}`) ?? 0)
  if (to === 0)
    return toOwnLeg(world, frame, ifindex) ? { ...pass, verdict: 'redirect', to: world.host?.ifindex ?? 0 } : pass
  if (to === ifindex) return drop('hairpin')
  const netThere = world.ports.get(to)
  const strict = endpoint !== undefined || world.kinds.get(to) === 'overlay'
  if (netThere === undefined || (strict && netThere !== net)) return pass
  if (isTooLong) return drop('too_long')
  return { ...pass, verdict: 'redirect', to }
}

/** What is for the node's MAC, and no tag with it. */
function toOwnLeg({ host }: World, frame: Frame, from: number): boolean {
  const plain = (frame.type === TYPE.ipv4 || frame.type === TYPE.ipv6) && frame.at === 14 && !frame.beside
  return plain && host?.mac === frame.to && host.ifindex !== from
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
  const own = world.ports.get(ifindex)
  if ((mark & STAMP_NET) !== own) {
    const { frame } = readFrame(packet.data, packet.beside ?? 0)
    const answers = own === 0 && answersFormer(world, frame, packet.data, mark & STAMP_NET, ifindex)
    return answers ? { verdict: 'pass', reasons: [], to: 0, mark: 0 } : drop('other_net')
  }
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
  const isOverlay = world.kinds.get(ifindex) === 'overlay'
  const taken = net === 0 && isOverlay && judgeOutside(world, ifindex, frame)
  if (taken) return { ...drop(taken), mark: STAMP }
  if (net) world.far.set(`${net}/${frame.from}`, ifindex)
  else if (!isOverlay && !world.outside.get(frame.from)?.recent)
    world.outside.set(frame.from, { recent: true, times: 1 })
  if (net === 0) return { verdict: 'pass', reasons: [], to: 0, mark: STAMP + (isOverlay ? 0 : STAMP_OUTSIDE) }
  if (own !== 0 || ofTag === 0) return forward(world, packet, frame, net, STAMP + net)
  // The outer tag is taken away, and one behind it then stands beside the frame.
  const popped = { ...packet, data: Buffer.concat([data.subarray(0, 12), data.subarray(frame.at - 2)]) }
  return forward(world, popped, { ...frame, at: 14, beside: frame.vids.length > 1 }, net, STAMP + net)
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
    const open = (mark & STAMP_OUTSIDE) === 0 && judgeOpen(world, read.frame, data)
    if (open) return drop(open)
    const { sender, vids = [] } = read.frame
    const untagged = vids.every((vid) => vid === 0)
    return sender && untagged && hostRange(world, sender) ? drop('private_address') : pass
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
