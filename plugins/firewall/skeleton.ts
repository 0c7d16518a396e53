import { TABLE } from '../../dataplane/nft/text.ts'
import { FIREWALL_PRIORITY } from '../../dataplane/numbers.ts'

/**
 * The static part in nft. Established connections pass first: their cost does not depend on the number of rules, and a
 * new drop evicts those that it forbids. The base chain's policy is accept; deny is the last rule of `firewall_default`.
 */
export const skeleton = `
add chain ${TABLE} firewall_rules
add chain ${TABLE} firewall_default
add chain ${TABLE} firewall { type filter hook prerouting priority ${FIREWALL_PRIORITY}; policy accept; }
flush chain ${TABLE} firewall
add rule ${TABLE} firewall ct state established,related accept
add rule ${TABLE} firewall jump firewall_rules
add rule ${TABLE} firewall jump firewall_default
`
