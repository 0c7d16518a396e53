import { TABLE } from '../../dataplane/nft/text.ts'

export const POSTROUTING = 'networks_postrouting'
/** Networks whose traffic may leave under the node's own address. */
export const SNAT = 'networks_snat'
/** Everything that this node serves itself: no traffic to it is translated. */
export const INSIDE = 'networks_inside'
/** Devices that lead off the node. */
export const UPLINKS = 'networks_uplinks'

/** The static part in nft: what exists. What stands in it is in desired.ts. */
export const skeleton = `
add set ${TABLE} ${SNAT} { type ipv4_addr; flags interval; }
add set ${TABLE} ${INSIDE} { type ipv4_addr; flags interval; }
add set ${TABLE} ${UPLINKS} { type ifname; }
add chain ${TABLE} ${POSTROUTING} { type nat hook postrouting priority srcnat; policy accept; }
`
