/** Why frames on br-work are dropped: names for metrics and events, and the words for the operator. */
import * as numbers from './numbers.ts'

interface Reason {
  number: number
  /** As it follows "the frame". */
  words: string
}

const TABLE = {
  short: { number: numbers.DROP_SHORT, words: 'ends within its headers' },
  malformed: { number: numbers.DROP_MALFORMED, words: 'has a header that contradicts its EtherType' },
  source_mac: { number: numbers.DROP_SOURCE_MAC, words: 'has a zero or multicast source MAC' },
  reserved: { number: numbers.DROP_RESERVED, words: 'is for the bridge group address range 01:80:c2:00:00:0x' },
  tags: { number: numbers.DROP_TAGS, words: 'has more than two VLAN tags' },
  vlan_locked: { number: numbers.DROP_VLAN_LOCKED, words: 'is tagged with a VLAN that is locked' },
  vlan_of_net: { number: numbers.DROP_VLAN_OF_NET, words: 'is tagged with the VLAN of a private network' },
  macbind: { number: numbers.DROP_MACBIND, words: 'has a source MAC that is not bound to the port' },
  ambiguous: { number: numbers.DROP_AMBIGUOUS, words: 'has a source MAC of several networks: declare its port' },
  unbound: { number: numbers.DROP_UNBOUND, words: "has a source MAC that is not bound in the port's network" },
  stale: { number: numbers.DROP_STALE, words: 'has a source MAC that is no longer bound' },
  home: { number: numbers.DROP_HOME, words: 'has a source MAC that is in use at another port' },
  other_port: {
    number: numbers.DROP_OTHER_PORT,
    words: 'has the MAC of an endpoint that belongs to another device: name this one as its port, or detach it',
  },
  address: { number: numbers.DROP_ADDRESS, words: 'has a source address that its MAC does not own' },
  arp: { number: numbers.DROP_ARP, words: 'is ARP that speaks for somebody else' },
  zero_address: {
    number: numbers.DROP_ZERO_ADDRESS,
    words: 'has no source address, and is neither DHCP nor what a machine says before it has one',
  },
  dhcp_server: { number: numbers.DROP_DHCP_SERVER, words: 'is for DHCP clients, which the node alone answers' },
  dhcp_client: {
    number: numbers.DROP_DHCP_CLIENT,
    words: 'is a DHCP request that names another MAC, or a fragment of one',
  },
  open_port: {
    number: numbers.DROP_OPEN_PORT,
    words: 'comes by a port of no network, and is for the node or a network',
  },
  outside_mac: { number: numbers.DROP_OUTSIDE_MAC, words: 'has a source MAC that is in use behind an uplink' },
  llc: { number: numbers.DROP_LLC, words: 'has IPv4, ARP, IPv6 or a VLAN tag wrapped in LLC/SNAP' },
  ipv6: { number: numbers.DROP_IPV6, words: 'is IPv6 of an address that is not link-local, or names another MAC' },
  ipv6_link: { number: numbers.DROP_IPV6_LINK, words: "has a link-local source address that is not its sender's" },
  ipv6_target: { number: numbers.DROP_IPV6_TARGET, words: "speaks for a link-local address that is not its sender's" },
  ipv6_router: { number: numbers.DROP_IPV6_ROUTER, words: 'is what only an IPv6 router or a DHCPv6 server says' },
  ipv6_hidden: { number: numbers.DROP_IPV6_HIDDEN, words: 'hides its content behind IPv6 extension headers' },
  claim: { number: numbers.DROP_CLAIM, words: 'came while its port was given to another network' },
  private_address: { number: numbers.DROP_PRIVATE_ADDRESS, words: 'has a source address of a private network' },
  no_port: { number: numbers.DROP_NO_PORT, words: 'met a port that the agent does not know' },
  no_program: { number: numbers.DROP_NO_PROGRAM, words: 'met a port without program' },
  unstamped: { number: numbers.DROP_UNSTAMPED, words: 'comes from a port that is not guarded yet' },
  other_net: { number: numbers.DROP_OTHER_NET, words: 'is of another network' },
  no_vlan: { number: numbers.DROP_NO_VLAN, words: 'is of a network that has no VLAN on uplinks' },
  host: { number: numbers.DROP_HOST, words: 'is for the node, which is no gateway of its network' },
  host_routing: { number: numbers.DROP_HOST_ROUTING, words: 'would be routed from one private network to another' },
  hairpin: { number: numbers.DROP_HAIRPIN, words: 'is for the port that it comes from' },
  too_long: { number: numbers.DROP_TOO_LONG, words: 'is longer than the MTU of the port that it is for' },
  kernel: { number: numbers.DROP_KERNEL, words: 'could not be tagged for want of memory' },
  transit: {
    number: numbers.DROP_TRANSIT,
    words: 'comes from off the node and would leave by an overlay, or from one',
  },
  tenant_blocked: { number: numbers.DROP_TENANT_BLOCKED, words: 'is of a tenant whose traffic is blocked' },
  tenant_limit: { number: numbers.DROP_TENANT_LIMIT, words: 'is more than the limit of its tenant lets through' },
  ceiling: { number: numbers.DROP_CEILING, words: 'is more than the licence lets this node carry' },
  quota: { number: numbers.DROP_QUOTA, words: 'is of a MAC that has used up its quota' },
  macbind_soft: { number: numbers.TALLY_MACBIND_SOFT, words: 'has a source MAC that is not bound to the port, softly' },
} as const satisfies Record<string, Reason>

/** Name of a reason, such as `source_mac`. */
export type ReasonName = keyof typeof TABLE

export const REASONS: Readonly<Record<ReasonName, Reason>> = TABLE

const NAMES: ReadonlyMap<number, ReasonName> = new Map(
  // The keys of the table are its names.
  (Object.keys(TABLE) as ReasonName[]).map((name) => [TABLE[name].number, name]),
)

/** Undefined for 0 and for numbers that a newer program brought. */
export function reasonName(number: number): ReasonName | undefined {
  return NAMES.get(number)
}
