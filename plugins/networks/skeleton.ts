import { TABLE } from '../../dataplane/nft/text.ts'

export const POSTROUTING = 'networks_postrouting'
/** Networks whose traffic may leave under the node's own address. */
export const SNAT = 'networks_snat'
/** Everything that this node serves itself: no traffic to it is translated. */
export const INSIDE = 'networks_inside'
/** Devices that lead off the node. */
export const UPLINKS = 'networks_uplinks'

/** What comes in for the node itself. */
export const INPUT = 'networks_input'
/** Addresses that the node holds as the gateway of a network. */
export const GATEWAYS = 'networks_gateways'
/** Each of these networks with its own gateway. */
export const OWN_GATEWAYS = 'networks_own_gateways'

/** What machines reach of the node itself. */
export const GUESTS = 'networks_guests'

/** The static part in nft: what exists. What stands in it is in desired.ts. */
export const skeleton = `
add set ${TABLE} ${SNAT} { type ipv4_addr; flags interval; }
add set ${TABLE} ${INSIDE} { type ipv4_addr; flags interval; }
add set ${TABLE} ${UPLINKS} { type ifname; }
add set ${TABLE} ${GATEWAYS} { type ipv4_addr; }
add set ${TABLE} ${OWN_GATEWAYS} { type ipv4_addr . ipv4_addr; flags interval; }
add chain ${TABLE} ${INPUT} { type filter hook input priority filter; policy accept; }
add chain ${TABLE} ${GUESTS} { type filter hook input priority filter + 10; policy accept; }
add chain ${TABLE} ${POSTROUTING} { type nat hook postrouting priority srcnat; policy accept; }
`
