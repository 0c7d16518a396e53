/** The same rules as nft has them, one after the other: what the classifier is compared with. */
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Prefix } from '../../dataplane/nft/text.ts'
import { byRank } from './reference.ts'

/** The table of all chains below. */
export const PEER_TABLE = 'inet peer'

/** What every lane has before its rules, so that conntrack runs and connections that stand leave first. */
export const ESTABLISHED = 'ct state established,related accept'

/** A ruleset that lets `lines` judge where the firewall stands. */
export const judging = (lines: readonly string[]): string => `
add table ${PEER_TABLE}
delete table ${PEER_TABLE}
table ${PEER_TABLE} {
  set ported { type inet_proto; elements = { tcp, udp }; }
  chain judge {
    type filter hook prerouting priority -150; policy accept;
    ${ESTABLISHED}
    ${lines.join('\n    ')}
  }
}
`

/** Rule by rule, then what happens to the rest. Throws TypeError on a rule with a window, which no peer has. */
export const linearNft = (rules: readonly FilterRule[], acceptRest: boolean): string =>
  judging([...[...rules].sort(byRank).map(nftRule), acceptRest ? 'accept' : 'drop'])

export function nftRule({ match, accept, window }: FilterRule): string {
  if (window) throw new TypeError('rules with a window of time have no text here')
  return [...nftMatch(match), accept ? 'accept' : 'drop'].join(' ')
}

function nftMatch(match: FilterMatch): string[] {
  const { protocol, sourcePort, destPorts } = match
  const ported = sourcePort !== undefined || destPorts !== undefined
  return [
    ...(match.interface === undefined ? [] : [`iifname "${match.interface}"`]),
    ...(match.mac === undefined ? [] : [`ether saddr ${match.mac}`]),
    ...address('saddr', match.source),
    ...address('daddr', match.dest),
    ...(protocol === 'icmp'
      ? ['ip protocol icmp']
      : protocol !== undefined
        ? [`meta l4proto ${protocol}`]
        : ported
          ? ['meta l4proto @ported']
          : []),
    ...(sourcePort === undefined ? [] : [`th sport ${sourcePort}`]),
    ...(destPorts === undefined ? [] : [`th dport ${span(destPorts, '-')}`]),
  ]
}

function address(which: 'saddr' | 'daddr', prefix: Prefix | undefined): string[] {
  if (prefix === undefined) return []
  // A prefix of no bits still says which family; nft takes no text for it.
  if (prefix.length === 0) return [`meta nfproto ipv${prefix.family}`]
  return [`${prefix.family === 4 ? 'ip' : 'ip6'} ${which} ${prefix.text}`]
}

/** A range as the tools write it; one port where both ends are the same. */
export const span = ([low, high]: readonly [number, number], dash: string): string =>
  low === high ? String(low) : `${low}${dash}${high}`
