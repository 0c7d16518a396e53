import { TABLE } from '../../dataplane/nft/text.ts'
import { FIREWALL_PRIORITY, openings } from '../../dataplane/numbers.ts'

/** An hour of silence ends a TCP connection for good: no retransmission lasts that long. */
const ended = (family: 4 | 6) =>
  `add set ${TABLE} firewall_ended${family} { type ipv${family}_addr . inet_service . ipv${family}_addr . inet_service; ` +
  'flags timeout; timeout 1h; size 65536; }'

/** An element of `openings`: protocol, port, who may (D71). */
export const openingOf = (protocol: string, port: number, source: string) => `${protocol} . ${port} . ${source}`
const opened = (family: 4 | 6) =>
  `add set ${TABLE} ${openings(family)} { type inet_proto . inet_service . ipv${family}_addr; }`

/**
 * The static part in nft: what exists. What stands in the chains is in linear.ts and accelerated.ts.
 * `{ tcp, udp }` is a named set because the kernel numbers anonymous ones by looking at all sets there are.
 */
export const skeleton = `
${ended(4)}
${ended(6)}
${opened(4)}
${opened(6)}
add set ${TABLE} firewall_ported { type inet_proto; elements = { tcp, udp }; }
add chain ${TABLE} firewall_established
add chain ${TABLE} firewall_spared
add chain ${TABLE} firewall_rules
add chain ${TABLE} firewall_default
add chain ${TABLE} firewall_output { type filter hook output priority ${FIREWALL_PRIORITY}; policy accept; }
add chain ${TABLE} firewall { type filter hook prerouting priority ${FIREWALL_PRIORITY}; policy accept; }
`
