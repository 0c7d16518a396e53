import { TABLE } from '../../dataplane/nft/text.ts'

export const INPUT = 'cluster_input'
/** Addresses of the other members. */
export const memberSet = (family: number) => `cluster_members${family}`

/**
 * The static part in nft: what exists. What stands in it is in desired.ts. A chain at the hook `input` has the last word, whatever
 * the rules of the firewall and the established connections let in before.
 */
export const skeleton = `
add set ${TABLE} ${memberSet(4)} { type ipv4_addr; }
add set ${TABLE} ${memberSet(6)} { type ipv6_addr; }
add chain ${TABLE} ${INPUT} { type filter hook input priority filter; policy accept; }
`
