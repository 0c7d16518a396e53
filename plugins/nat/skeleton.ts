import { TABLE } from '../../dataplane/nft/text.ts'

export const PREROUTING = 'nat_prerouting'
export const OUTPUT = 'nat_output'
export const POSTROUTING = 'nat_postrouting'
/** Behind destination NAT: which new connections need the node's address as their source, too. */
export const TURN = 'nat_turn'
export const TURN_OUTPUT = 'nat_turn_output'

/** Where packets between devices pass: what a forward translates may go from one private network to another. */
export const BETWEEN = 'nat_between'

/** Public address and port → target. */
export const forwards = (family: number) => `nat_forward${family}`
/** The keys of the map once more: nft does not look a key up in a map without taking its value. */
export const publics = (family: number) => `nat_public${family}`
/** Device and block whose traffic leaves by it under the node's address. */
export const sources = (family: number) => `nat_snat${family}`
/** Connections that leave by the device they came by, or come from the node: noted while their first packet passes. */
export const TURNED = 'nat_turned'

const ofFamily = (family: 4 | 6) => `
add map ${TABLE} ${forwards(family)} { type ipv${family}_addr . inet_service : ipv${family}_addr . inet_service; }
add set ${TABLE} ${publics(family)} { type ipv${family}_addr . inet_service; }
add set ${TABLE} ${sources(family)} { type ifname . ipv${family}_addr; flags interval; }
`

/**
 * The static part in nft: what exists. What stands in it is in desired.ts. The numbers are NF_IP_PRI_NAT_DST (-100) of
 * linux/netfilter_ipv4.h and the place right behind it.
 */
export const skeleton = `
${ofFamily(4)}${ofFamily(6)}
add set ${TABLE} ${TURNED} { typeof ct id; flags dynamic,timeout; timeout 5s; size 65536; }
add chain ${TABLE} ${PREROUTING} { type nat hook prerouting priority -100; policy accept; }
add chain ${TABLE} ${OUTPUT} { type nat hook output priority -100; policy accept; }
add chain ${TABLE} ${TURN} { type filter hook prerouting priority -99; policy accept; }
add chain ${TABLE} ${TURN_OUTPUT} { type filter hook output priority -99; policy accept; }
add chain ${TABLE} ${BETWEEN} { type filter hook forward priority filter; policy accept; }
add chain ${TABLE} ${POSTROUTING} { type nat hook postrouting priority srcnat; policy accept; }
`
