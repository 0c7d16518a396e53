/**
 * Numbers that the agent shares with the programs on the workload ports alone: who may take an endpoint, who is bound where, why a
 * frame was dropped.
 */

/** In place of an ifindex: the device is named and is not there. */
export const NO_DEVICE = 0xffffffff

/** Which ports may become the home of an endpoint: any once the former one is gone; one, for good; none but by the agent. */
export const CLAIM_ANY = 0
export const CLAIM_FIRST = 1
export const CLAIM_NONE = 2

/** SETTING_MACBIND: MAC bindings exist; some of them name a port. */
export const BINDINGS_EXIST = 1
export const BINDINGS_NAME_PORTS = 2

/**
 * A MAC is refused at open ports once it was heard behind an uplink in so many seconds, until it has been silent there for so
 * long; and how many such MACs are known.
 */
export const OUTSIDE_TIMES = 3
export const OUTSIDE_SECONDS = 30
export const OUTSIDE_ROWS = 16_384
/** Bits by which most other MACs are told from those: 2 to the power of it. */
export const OUTSIDE_BITS = 16
/** MACs of peers of overlays. */
export const PEER_ROWS = 65_536

/** How many clients of ended leases may wait for an answer at once. */
export const FORMER_PORT_ROWS = 1024

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
export const DROP_TRANSIT = 32
export const DROP_TENANT_BLOCKED = 33
export const DROP_TENANT_LIMIT = 34
export const DROP_CEILING = 35
export const DROP_QUOTA = 36
export const DROP_OTHER_PORT = 37
export const DROP_LLC = 38
export const DROP_IPV6_LINK = 39
export const DROP_IPV6_TARGET = 40
export const DROP_DHCP_CLIENT = 41
export const DROP_OPEN_PORT = 42
export const DROP_OUTSIDE_MAC = 43
/**
 * Counted beside the drops: frames that only a soft MAC binding was against, violations that no event tells of, endpoints that
 * became another port's, and those of them that no event tells of.
 */
export const TALLY_MACBIND_SOFT = 48
export const TALLY_UNTOLD = 49
export const TALLY_CLAIMED = 50
export const TALLY_CLAIM_UNTOLD = 51
export const TALLY_ROWS = 64
