import { TABLE } from '../../dataplane/nft/text.ts'
import { FIREWALL_PRIORITY } from '../../dataplane/numbers.ts'

/** An hour of silence ends a TCP connection for good: no retransmission lasts that long. */
const ended = (family: 4 | 6) =>
  `add set ${TABLE} firewall_ended${family} { type ipv${family}_addr . inet_service . ipv${family}_addr . inet_service; ` +
  'flags timeout; timeout 1h; size 65536; }'

/** A segment that is no first one and would open an ended connection anew. */
const resumed = (family: 4 | 6) => {
  const ip = family === 4 ? 'ip' : 'ip6'
  return (
    `add rule ${TABLE} firewall ct state new tcp flags & (syn | ack) != syn ` +
    `${ip} saddr . tcp sport . ${ip} daddr . tcp dport @firewall_ended${family} drop`
  )
}

/**
 * The static part in nft. Established connections leave first, so their cost does not depend on the number of rules.
 * The base chain's policy is accept; deny is the last rule of `firewall_default`.
 */
export const skeleton = `
${ended(4)}
${ended(6)}
add chain ${TABLE} firewall_established
add chain ${TABLE} firewall_rules
add chain ${TABLE} firewall_default
add chain ${TABLE} firewall { type filter hook prerouting priority ${FIREWALL_PRIORITY}; policy accept; }
flush chain ${TABLE} firewall
add rule ${TABLE} firewall ct state established,related jump firewall_established
${resumed(4)}
${resumed(6)}
add rule ${TABLE} firewall jump firewall_rules
add rule ${TABLE} firewall jump firewall_default
`
