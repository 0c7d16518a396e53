import { TABLE } from '../../dataplane/nft/text.ts'

export const INPUT = 'vxlan_input'
/** Who may send to the node's tunnels. */
export const vteps = (family: number) => `vxlan_vteps${family}`

/** The static part in nft: what exists. What stands in it is in desired.ts. */
export const skeleton = `
add set ${TABLE} ${vteps(4)} { type ipv4_addr; }
add set ${TABLE} ${vteps(6)} { type ipv6_addr; }
add chain ${TABLE} ${INPUT} { type filter hook input priority filter; policy accept; }
`
