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

/** Places of the classifier, behind nft's chain at FIREWALL_PRIORITY; an upgrade stands at one before it leaves the other. */
export const CLASSIFIER_PRIORITIES = [-149, -148] as const

/**
 * skb->priority of a packet that the default deny spares: nft marks it, the classifier reads it. Not the packet mark, whose
 * bits all belong to br-work; what is routed on gets another priority from its type of service anyway.
 */
export const SPARED_PRIORITY = 0xffff5354

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
 * delivered by that. No nft rule may write these bits, but the one that takes the stamp off what a port forward
 * sends from one net to another, and no other mark or mask may use them.
 */
export const STAMP = 0x53000000
export const STAMP_MASK = 0xff000000
/** In place of STAMP: it has waited in its class, and was judged and counted before. The rest is as of STAMP, or an ifindex. */
export const STAMP_SHAPED = 0x54000000
/** The sender uses a routed address. */
export const STAMP_ROUTED = 0x00800000
/** The same bit beside net 0: the frame came in by an uplink, not by an open port or an overlay. */
export const STAMP_OUTSIDE = 0x00800000
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

/** Elements of map `settings`: BINDINGS_* when any binding exists; the lock that holds for every port. */
export const SETTING_MACBIND = 0
export const SETTING_LOCK = 1
/** 1 while nothing of an open port reaches the node. */
export const SETTING_CLOSED = 2
/** 1 while `peers` has rows, so that nobody else pays for looking there. */
export const SETTING_PEERS = 3
export const SETTING_ROWS = 4

/** Flag of a net whose tenant is blocked. */
export const TENANT_BLOCKED = 1

/** A tenant may send this long at its rate at once, and never less than so many bytes: a policer with less starves TCP. */
export const TENANT_BURST_NS = 200_000_000
export const TENANT_BURST_BYTES = 65_536
/** Frames up to this size, such as ARP and the acknowledgements of TCP, may use the burst twice: bulk never takes all of it. */
export const TENANT_SMALL_BYTES = 128

/** Slots of map `programs`. */
export const HOOK_PORT_IN = 0
export const HOOK_PORT_OUT = 1
export const HOOK_UPLINK_IN = 2
export const HOOK_UPLINK_OUT = 3
export const HOOK_HOST_IN = 4
export const HOOK_HOST_OUT = 5
export const HOOK_SHAPED_UP = 6
export const HOOK_SHAPED_DOWN = 7
export const HOOK_ROWS = 16

/** Map `ports` is a table of 2^PORT_SET_BITS sets of 2^PORT_WAY_BITS words; the hash of an ifindex is its set. */
export const PORT_SET_BITS = 11
export const PORT_WAY_BITS = 3
export const PORT_HASH = 0x9e3779b1
/** In a word of `ports`, beside the net: the port leads off the node; it does so by a tunnel to other nodes. */
export const PORT_UPLINK = 0x40000000
export const PORT_OVERLAY = 0x80000000

/** Map `slots` gives every bound endpoint 2^SLOT_WORD_BITS words: one cache line. What each of them is: */
export const SLOT_WORD_BITS = 3
export const SLOT_TRUTH = 0
export const SLOT_UP_PACKETS = 1
export const SLOT_UP_BYTES = 2
export const SLOT_DOWN_PACKETS = 3
export const SLOT_DOWN_BYTES = 4
/** Net << 32 | ifindex of the port that the endpoint is at; 0 for none. */
export const SLOT_HOME = 5
/** Interface id of the link-local address that the endpoint has claimed, as it stands in a packet; 0 for none. */
export const SLOT_LINK = 7

/** Flows (bpf/src/flow.h) count time in units of 2^FLOW_CLOCK_BITS ns, 17 ms: 32 bits of them last for two years. */
export const FLOW_CLOCK_BITS = 24
/** Seconds of silence after which a flow is over, and for how many a flow that is over is still told of (D89). */
export const FLOW_IDLE = 120
export const FLOW_IDLE_TCP = 3600
export const FLOW_IDLE_HALF_OPEN = 300
export const FLOW_KEPT = 60
/** Least rows of the maps of flows; a node makes them as large as its memory allows (bpf/flow/room.ts). */
export const FLOW4_ROWS = 65_536
export const FLOW6_ROWS = 16_384
/** Rows of what MACs have sent and got that are not bound; bound ones have as many as there can be. */
export const USAGE_OPEN_ROWS = 32_768
/** The instant at which such a row was made, in units of 2^USAGE_BORN_BITS ns: it then fits a number of JavaScript. */
export const USAGE_BORN_BITS = 10

/** Sizes of the maps of br-work (bpf/src/maps.h). */
export const PORT_ROWS = 1024
export const ENDPOINT_ROWS = 131_072
export const ADDRESS_ROWS = 65_536
export const PREFIX_ROWS = 65_536
export const NET_ROWS = 4096
export const FAR_ROWS = 16_384
export const MACBIND_ROWS = 16_384
export const TENANT_NET_ROWS = 65_536
export const BUCKET_ROWS = 16_384
export const VIOLATION_ROWS = 4096
export const EVENT_BYTES = 262_144

/**
 * The classifier (bpf/src/classify.h). Its arenas consist of cells, those of IPv6 twice as large. Cell 0 tells how many
 * lines the hash has, which follow it; a line holds runs of rules and ends with the cell of the line that continues it.
 */
export const FILTER_TABLES = 128
export const FILTER_CELL4 = 64
export const FILTER_CELL6 = 128
/** Cells that one look-up gives; the agent puts no run of up to so many into two such pages. */
export const FILTER_PAGE = 16
/** A line may be continued so often, and a run has at most so many rules. */
export const FILTER_LINES = 4
export const FILTER_RUN = 4095
/** Where the arena of each family stands in map `filter_arenas`, and its tables in `filter_tables`. */
export const FILTER_IPV4 = 0
export const FILTER_IPV6 = 1
export const FILTER_DEVICES = 4096

/** What happens to a packet that no rule decides; with SPARE one that nft has marked with SPARED_PRIORITY passes. */
export const DEFAULT_DROP = 0
export const DEFAULT_ACCEPT = 1
export const DEFAULT_SPARE = 2

/** Flags of a rule in a cell. */
export const RULE_ACCEPT = 1
export const RULE_FRESH = 2
export const RULE_MAC = 4

/** Flags of a table: its key has the MAC address, the device. Of the settings: some rule asks for them. */
export const KEY_MAC = 1
export const KEY_DEVICE = 2

/** Multiplier of the hash of a masked packet, and of its last step. */
export const FILTER_MIX = 0x9e3779b1
export const FILTER_FINISH = 0x85ebca6b

/** Violations told a second and port; the rest is counted. */
export const EVENTS_PER_SECOND = 20

/**
 * The load balancer (bpf/src/lb.bpf.c). Backend `place` of virtual address `index` is row `index * LB_PLACES + place` of
 * `lb_backends`.
 */
export const LB_VIPS = 1024
export const LB_PLACES = 256
export const LB_BACKENDS = 262_144
/** Slots of a ring: a prime far above the number of backends, so that shares are even (Maglev, NSDI 2016, section 3.4). */
export const LB_RING = 65_537
/** Connections that are remembered; at least twice as many as are open at the peak, or the kernel gives up open ones. */
export const LB_FLOWS4 = 262_144
export const LB_FLOWS6 = 65_536
/** Openings that nothing has come of yet: whoever floods the node with them drives out one another. */
export const LB_BEGUN4 = 65_536
export const LB_BEGUN6 = 16_384
/** Openings a second and CPU, beyond which backends are chosen such that nothing need be known of them. */
export const LB_OPENINGS = 125_000
/** Connections whose client address is translated as well, and datagrams whose fragments are on their way. */
export const LB_TRANSLATED = 65_536
export const LB_FRAGMENTS = 8192
/** Virtual addresses that may share one address and port of a backend. */
export const LB_SHARERS = 8

/** Algorithms, as the programs tell them apart. */
export const LB_ROUND_ROBIN = 0
export const LB_LEAST_CONN = 1
export const LB_HASH = 2
export const LB_SOURCE_HASH = 3
/** Of backends up to this many the least loaded is sought; of more the better one of two. */
export const LB_EXACT = 16

/**
 * Bits of map `lb_hints`, 2^LB_HINT_BITS: one is set for whatever `lb_vips` and `lb_served` may have under a key whose hash it
 * is, so that most packets that are none of the load balancer's are known by it. Multipliers of that hash.
 */
export const LB_HINT_BITS = 16
export const LB_HINT_MIX = 0x9e3779b1
export const LB_HINT_FINISH = 0x85ebca6b

/** Flag of a virtual address: backends answer clients themselves. */
export const LB_DSR = 1
/** State of a backend; 0 in an empty row. */
export const LB_UP = 1
export const LB_DRAINING = 2
export const LB_DOWN = 3

/** Flag of a device: whoever is behind it sends what leaves its network by this node. */
export const LB_INSIDE = 1
export const LB_DEVICES = 1024

/** Source ports for translated clients: below those that the kernel gives to sockets (ip_local_port_range). */
export const LB_PORT_FIRST = 1024
export const LB_PORT_COUNT = 31_744

/** A connection is forgotten after so many seconds of silence; the programs count in units of 2^LB_UNIT_BITS ticks. */
export const LB_UNIT_BITS = 7
export const LB_IDLE_OPEN = 7200
export const LB_IDLE_CLOSED = 60
export const LB_IDLE_ENDED = 3600
export const LB_IDLE_HALF_OPEN = 30
export const LB_IDLE_UDP = 60

/** Rows of `lb_tallies`: why something was dropped, or what was answered. */
export const LB_DENIED = 0
export const LB_NO_BACKEND_UDP = 1
export const LB_NO_BACKEND_TCP = 2
export const LB_NO_ROUTE = 3
export const LB_NO_PORT = 4
export const LB_HOPS = 5
export const LB_FRAGMENT = 6
export const LB_TOO_LONG = 7
export const LB_KERNEL = 8
export const LB_TALLIES = 16

/** Set of the firewall that says what areas keep open to peers they know, by address family: protocol, port, who may. */
export const openings = (family: number): string => `firewall_open${family}`
