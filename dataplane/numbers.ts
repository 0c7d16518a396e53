/**
 * Every number and name that stratum-node shares with the kernel, in one place.
 * `dataplane/bpf/src/numbers.h` is generated from this file, so C and TypeScript cannot disagree.
 */

/** rtnetlink route protocol that marks routes made by the agent (see /etc/iproute2/rt_protos). */
export const ROUTE_PROTOCOL = 201

/** The one nftables table of the agent; nothing outside it is ever written. */
export const NFT_FAMILY = 'inet'
export const NFT_TABLE = 'stratum'

/** Hook priority of the firewall: after conntrack (-200), before destination NAT (-100). */
export const FIREWALL_PRIORITY = -150

/** Layout version of pinned BPF objects: maps live below `<bpf dir>/v<N>`. */
export const BPF_LAYOUT = 1

/** Every interface that the agent creates begins with this, except the managed bridges and an operator's own names. */
export const LINK_PREFIX = 'st'

/** The bridges that every node has: one for its management, one for workloads. */
export const MANAGEMENT_BRIDGE = 'br-mgmt'
export const WORK_BRIDGE = 'br-work'

/** TCP ports of the three transports. */
export const REST_PORT = 7070
export const GRPC_PORT = 7071
export const EVENTS_PORT = 7072

/**
 * Packet marks on br-work. Where a frame comes in its sender is proven and `STAMP | net` written; where it leaves it is
 * delivered by that. No nft rule may write these bits, and no other mark or mask may use them.
 */
export const STAMP = 0x53000000
export const STAMP_MASK = 0xff000000
/** The sender uses a routed address. */
export const STAMP_ROUTED = 0x00800000
/** The bits that hold the number of the net, 0 for open ports. */
export const STAMP_NET = 0x007fffff

/** Highest number of a private network; from ROUTED_NET_BASE on, a net is that of one NIC with routed addresses only. */
export const NET_MAX = 0x003fffff
export const ROUTED_NET_BASE = 0x00400000

/** Flags of a net. */
export const NET_HOST_GATEWAY = 1
export const NET_ROUTED = 2
export const NET_DHCP = 4

/** In place of a net: the MAC is bound in several. */
export const MAC_AMBIGUOUS = 0xffffffff
/** Beside the MAC in SLOT_TRUTH: its address is a routed one. */
export const TRUTH_ROUTED = 1n << 48n
export const VLAN_LOCKED = 0x80000000

/** How strictly a port insists on MAC bindings; the higher number wins. */
export const LOCK_SOFT = 1
export const LOCK_HARD = 2

/** Elements of map `settings`: not 0 when any lock exists; the lock that holds for every port. */
export const SETTING_MACBIND = 0
export const SETTING_LOCK = 1
export const SETTING_ROWS = 4

/** Slots of map `programs`. */
export const HOOK_PORT_IN = 0
export const HOOK_PORT_OUT = 1
export const HOOK_UPLINK_IN = 2
export const HOOK_UPLINK_OUT = 3
export const HOOK_HOST_IN = 4
export const HOOK_HOST_OUT = 5
export const HOOK_ROWS = 16

/** Map `ports` is a table of 2^PORT_SET_BITS sets of 2^PORT_WAY_BITS words; the hash of an ifindex is its set. */
export const PORT_SET_BITS = 11
export const PORT_WAY_BITS = 3
export const PORT_HASH = 0x9e3779b1

/** Map `slots` gives every bound endpoint 2^SLOT_WORD_BITS words: one cache line. What each of them is: */
export const SLOT_WORD_BITS = 3
export const SLOT_TRUTH = 0
export const SLOT_UP_PACKETS = 1
export const SLOT_UP_BYTES = 2
export const SLOT_DOWN_PACKETS = 3
export const SLOT_DOWN_BYTES = 4

/** Sizes of the maps of br-work (bpf/src/maps.h). */
export const PORT_ROWS = 1024
export const ENDPOINT_ROWS = 131_072
export const ADDRESS_ROWS = 65_536
export const PREFIX_ROWS = 65_536
export const NET_ROWS = 4096
export const FAR_ROWS = 16_384
export const MACBIND_ROWS = 16_384
export const VIOLATION_ROWS = 4096
export const EVENT_BYTES = 262_144

/** Violations told a second and port; the rest is counted. */
export const EVENTS_PER_SECOND = 20

/** Why a frame on br-work was dropped; dataplane/bpf/port/reason.ts says it in words. 0 is no reason. */
export const DROP_SHORT = 1
export const DROP_MALFORMED = 2
export const DROP_SOURCE_MAC = 3
export const DROP_RESERVED = 4
export const DROP_TAGS = 5
export const DROP_VLAN_LOCKED = 6
export const DROP_VLAN_OF_NET = 7
export const DROP_MACBIND = 8
export const DROP_AMBIGUOUS = 9
export const DROP_UNBOUND = 10
export const DROP_STALE = 11
export const DROP_HOME = 12
export const DROP_ADDRESS = 13
export const DROP_ARP = 14
export const DROP_ZERO_ADDRESS = 15
export const DROP_DHCP_SERVER = 16
export const DROP_IPV6 = 17
export const DROP_IPV6_ROUTER = 18
export const DROP_IPV6_HIDDEN = 19
export const DROP_CLAIM = 20
export const DROP_PRIVATE_ADDRESS = 21
export const DROP_NO_PORT = 22
export const DROP_NO_PROGRAM = 23
export const DROP_UNSTAMPED = 24
export const DROP_OTHER_NET = 25
export const DROP_NO_VLAN = 26
export const DROP_HOST = 27
export const DROP_HOST_ROUTING = 28
export const DROP_HAIRPIN = 29
export const DROP_TOO_LONG = 30
export const DROP_KERNEL = 31
/** Counted beside the drops: frames that only a soft MAC binding was against, and violations that no event tells of. */
export const TALLY_MACBIND_SOFT = 48
export const TALLY_UNTOLD = 49
export const TALLY_ROWS = 64
