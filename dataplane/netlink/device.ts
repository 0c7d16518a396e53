/** Kinds of links that the agent makes: their settings to IFLA_INFO_DATA and back (linux/if_link.h). */
import type { Attributes, Payload } from './attribute.ts'
import { addressBytes, addressText, macBytes } from './inet.ts'

const IFLA_BR_STP_STATE = 5
const IFLA_BR_VLAN_FILTERING = 7
const IFLA_BR_MCAST_SNOOPING = 23
const IFLA_BR_NF_CALL_IPTABLES = 36
const IFLA_BR_NF_CALL_IP6TABLES = 37
const IFLA_BR_NF_CALL_ARPTABLES = 38

const IFLA_VXLAN_ID = 1
const IFLA_VXLAN_LINK = 3
const IFLA_VXLAN_LOCAL = 4
const IFLA_VXLAN_TTL = 5
const IFLA_VXLAN_LEARNING = 7
const IFLA_VXLAN_PORT = 15
const IFLA_VXLAN_LOCAL6 = 17

const IFLA_BOND_MODE = 1
const IFLA_BOND_MIIMON = 3
const IFLA_BOND_XMIT_HASH_POLICY = 14
const IFLA_BOND_AD_LACP_RATE = 21

const VETH_INFO_PEER = 1
const IFLA_ADDRESS = 1
const IFLA_IFNAME = 3
const IFLA_MTU = 4
const IFLA_GROUP = 27
/** struct ifinfomsg */
const LINK_HEADER_SIZE = 16

const BOND_MODES = [
  'balance-rr',
  'active-backup',
  'balance-xor',
  'broadcast',
  '802.3ad',
  'balance-tlb',
  'balance-alb',
] as const
const HASH_POLICIES = ['layer2', 'layer3+4', 'layer2+3', 'encap2+3', 'encap3+4', 'vlan+srcmac'] as const
const LACP_RATES = ['slow', 'fast'] as const

export interface Bridge {
  readonly type: 'bridge'
  readonly stp: boolean
  readonly multicastSnooping: boolean
  /** Whether bridged frames meet nftables and conntrack of the IP families (br_netfilter). */
  readonly netfilter: boolean
  /** False also where the kernel lacks CONFIG_BRIDGE_VLAN_FILTERING. */
  readonly vlanFiltering: boolean
}

/** A pair of which this link is the near end. The far end is up and has the MTU of the near one. */
export interface Veth {
  readonly type: 'veth'
  readonly peer: string
  /** Without one, any. */
  readonly peerMac?: string
}

export interface Vxlan {
  readonly type: 'vxlan'
  readonly vni: number
  /** UDP port of both sides. */
  readonly port: number
  /** Source address of the tunnel; it also says whether the tunnel is IPv4 or IPv6. */
  readonly local?: string
  /** Device that the tunnel goes out by; without one, what the routes say. */
  readonly underlay?: string
  readonly learning: boolean
  /** Of the outer header; 0 is that of the route. */
  readonly ttl: number
}

export interface Bond {
  readonly type: 'bond'
  readonly mode: (typeof BOND_MODES)[number]
  /** Milliseconds between looks at the carrier of the members. */
  readonly miimon: number
  readonly hashPolicy: (typeof HASH_POLICIES)[number]
  /** Of 802.3ad only. */
  readonly lacpRate: (typeof LACP_RATES)[number]
}

export type Device = Bridge | Veth | Vxlan | Bond | { readonly type: 'dummy' } | { readonly type: 'ifb' }

type Options<D, Needed extends keyof D> = Pick<D, Needed> & Partial<D>
export type DeviceOptions =
  | Options<Bridge, 'type'>
  | Veth
  | Options<Vxlan, 'type' | 'vni'>
  | Options<Bond, 'type' | 'mode'>
  | { readonly type: 'dummy' }
  | { readonly type: 'ifb' }

/** Looks up what a message tells by number. */
export interface Links {
  /** Index of the link with this name. */
  index(name: string): number | undefined
  name(index: number): string | undefined
}

/** All settings, with what is left out set to what the agent wants by default, and addresses in their one spelling. */
export function completeDevice(options: DeviceOptions): Device {
  switch (options.type) {
    case 'bridge':
      return { stp: false, multicastSnooping: false, netfilter: false, vlanFiltering: false, ...options }
    case 'vxlan': {
      const { local, ...rest } = options
      return { port: 4789, learning: true, ttl: 0, ...rest, ...(local && { local: addressText(addressBytes(local)) }) }
    }
    case 'bond': {
      // What 802.3ad alone uses stands in other modes as the kernel has it from the start.
      const aggregates = options.mode === '802.3ad'
      const [hashPolicy, lacpRate] = aggregates ? (['layer2+3', 'fast'] as const) : (['layer2', 'slow'] as const)
      return { miimon: 100, hashPolicy, lacpRate, ...options }
    }
    case 'veth':
      return options.peerMac === undefined ? options : { ...options, peerMac: options.peerMac.toLowerCase() }
    default:
      return options
  }
}

/** What a device that goes from `a` to `b` takes; `new` when the kernel cannot change it in place. */
export function deviceChange(a: Device, b: Device): 'none' | 'settings' | 'new' {
  if (a.type !== b.type) return 'new'
  if (a.type === 'veth' && b.type === 'veth') {
    if (a.peer !== b.peer) return 'new'
    return b.peerMac === undefined || a.peerMac === b.peerMac ? 'none' : 'settings'
  }
  if (sameFields(a, b)) return 'none'
  // The kernel changes these two of a bond that is down and has no members.
  if (a.type === 'bond' && b.type === 'bond') return a.mode === b.mode && a.lacpRate === b.lacpRate ? 'settings' : 'new'
  if (a.type !== 'vxlan' || b.type !== 'vxlan') return 'settings'
  const family = (local?: string) => local && addressBytes(local).length
  const moved = a.vni !== b.vni || a.port !== b.port || a.underlay !== b.underlay || family(a.local) !== family(b.local)
  return moved ? 'new' : 'settings'
}

function sameFields(a: object, b: object): boolean {
  const [left, right] = [Object.entries(a), new Map<string, unknown>(Object.entries(b))]
  return left.length === right.size && left.every(([key, value]) => right.get(key) === value)
}

/** The far end of a new pair, beyond what its device says. */
export interface PeerSettings {
  mtu?: number | undefined
  group: number
}

/** Appends IFLA_INFO_DATA for a new link. Throws RangeError when `underlay` is not there. */
export function appendDevice(payload: Payload, device: Device, links: Pick<Links, 'index'>, peer: PeerSettings): void {
  if (device.type === 'veth') appendPeer(payload, device, peer)
  else appendChange(payload, device, links)
  if (device.type === 'vxlan') payload.u16Be(IFLA_VXLAN_PORT, device.port)
}

/** Appends IFLA_INFO_DATA for a link that exists as `old`, without what the kernel never changes. Throws as above. */
export function appendChange(payload: Payload, device: Device, links: Pick<Links, 'index'>, old?: Device): void {
  if (device.type === 'bridge') appendBridge(payload, device, old?.type === 'bridge' && old.vlanFiltering)
  else if (device.type === 'vxlan') appendVxlan(payload, device, links)
  else if (device.type === 'bond') appendBond(payload, device, old?.type === 'bond')
}

function appendBridge(payload: Payload, device: Bridge, filtersVlans: boolean): void {
  const { stp, multicastSnooping, netfilter, vlanFiltering } = device
  payload.u32(IFLA_BR_STP_STATE, Number(stp)).u8(IFLA_BR_MCAST_SNOOPING, Number(multicastSnooping))
  for (const hook of [IFLA_BR_NF_CALL_IPTABLES, IFLA_BR_NF_CALL_IP6TABLES, IFLA_BR_NF_CALL_ARPTABLES]) {
    payload.u8(hook, Number(netfilter))
  }
  // A kernel that cannot filter refuses to be told not to.
  if (vlanFiltering !== filtersVlans) payload.u8(IFLA_BR_VLAN_FILTERING, Number(vlanFiltering))
}

function appendPeer(payload: Payload, { peer, peerMac }: Veth, { mtu, group }: PeerSettings): void {
  payload.nest(VETH_INFO_PEER, (nested) => {
    nested.raw(Buffer.alloc(LINK_HEADER_SIZE)).text(IFLA_IFNAME, peer).u32(IFLA_GROUP, group)
    if (peerMac !== undefined) nested.bytes(IFLA_ADDRESS, macBytes(peerMac))
    if (mtu !== undefined) nested.u32(IFLA_MTU, mtu)
  })
}

function appendVxlan(payload: Payload, device: Vxlan, links: Pick<Links, 'index'>): void {
  payload.u32(IFLA_VXLAN_ID, device.vni).u8(IFLA_VXLAN_LEARNING, Number(device.learning)).u8(IFLA_VXLAN_TTL, device.ttl)
  if (device.underlay !== undefined) {
    const index = links.index(device.underlay)
    if (index === undefined) throw new RangeError(`interface ${device.underlay} does not exist`)
    payload.u32(IFLA_VXLAN_LINK, index)
  }
  if (device.local === undefined) return
  const local = addressBytes(device.local)
  payload.bytes(local.length === 4 ? IFLA_VXLAN_LOCAL : IFLA_VXLAN_LOCAL6, local)
}

function appendBond(payload: Payload, { mode, miimon, hashPolicy, lacpRate }: Bond, exists: boolean): void {
  // The mode first, then what depends on it. Of a bond that is up the kernel refuses both, changed or not.
  if (!exists) payload.u8(IFLA_BOND_MODE, BOND_MODES.indexOf(mode))
  payload.u32(IFLA_BOND_MIIMON, miimon).u8(IFLA_BOND_XMIT_HASH_POLICY, HASH_POLICIES.indexOf(hashPolicy))
  // The kernel refuses it in every other mode.
  if (!exists && mode === '802.3ad') payload.u8(IFLA_BOND_AD_LACP_RATE, LACP_RATES.indexOf(lacpRate))
}

/**
 * Reads IFLA_INFO_DATA of a link. `peer` is the index of a pair's far end. Undefined for kinds that the agent never
 * makes, and for a pair whose far end is not in this namespace.
 */
export function decodeDevice(
  kind: string | undefined,
  data: Attributes | undefined,
  links: Pick<Links, 'name'>,
  peer?: number,
): Device | undefined {
  if (kind === 'dummy' || kind === 'ifb') return { type: kind }
  if (kind === 'veth') {
    const name = peer === undefined ? undefined : links.name(peer)
    return name === undefined ? undefined : { type: 'veth', peer: name }
  }
  if (data === undefined) return undefined
  if (kind === 'bridge') return decodeBridge(data)
  if (kind === 'vxlan') return decodeVxlan(data, links)
  return kind === 'bond' ? decodeBond(data) : undefined
}

function decodeBridge(data: Attributes): Bridge {
  const hooks = [IFLA_BR_NF_CALL_IPTABLES, IFLA_BR_NF_CALL_IP6TABLES, IFLA_BR_NF_CALL_ARPTABLES]
  return {
    type: 'bridge',
    stp: (data.u32(IFLA_BR_STP_STATE) ?? 0) !== 0,
    multicastSnooping: data.u8(IFLA_BR_MCAST_SNOOPING) === 1,
    netfilter: hooks.some((hook) => data.u8(hook) === 1),
    vlanFiltering: data.u8(IFLA_BR_VLAN_FILTERING) === 1,
  }
}

function decodeVxlan(data: Attributes, links: Pick<Links, 'name'>): Vxlan {
  const local = data.bytes(IFLA_VXLAN_LOCAL) ?? data.bytes(IFLA_VXLAN_LOCAL6)
  const index = data.u32(IFLA_VXLAN_LINK)
  const underlay = index === undefined || index === 0 ? undefined : (links.name(index) ?? `#${index}`)
  return {
    type: 'vxlan',
    vni: data.u32(IFLA_VXLAN_ID) ?? 0,
    port: data.u16Be(IFLA_VXLAN_PORT) ?? 0,
    learning: data.u8(IFLA_VXLAN_LEARNING) === 1,
    ttl: data.u8(IFLA_VXLAN_TTL) ?? 0,
    ...(local && { local: addressText(local) }),
    ...(underlay !== undefined && { underlay }),
  }
}

function decodeBond(data: Attributes): Bond {
  return {
    type: 'bond',
    mode: BOND_MODES[data.u8(IFLA_BOND_MODE) ?? 0] ?? 'balance-rr',
    miimon: data.u32(IFLA_BOND_MIIMON) ?? 0,
    hashPolicy: HASH_POLICIES[data.u8(IFLA_BOND_XMIT_HASH_POLICY) ?? 0] ?? 'layer2',
    lacpRate: LACP_RATES[data.u8(IFLA_BOND_AD_LACP_RATE) ?? 0] ?? 'slow',
  }
}
