/** What the firewall asks of the classifier: rules in order, and what happens to packets that none decides. */
import type { Prefix } from '../../nft/text.ts'

/** What a packet must be for a rule to decide it; an absent field matches every packet. */
export interface FilterMatch {
  /** `icmp` is that of IPv4. With a port and without a protocol: TCP and UDP. */
  protocol?: 'tcp' | 'udp' | 'icmp'
  source?: Prefix
  dest?: Prefix
  sourcePort?: number
  /** First and last destination port. */
  destPorts?: readonly [number, number]
  /** Name of the device that the packet came in by, whether there is one of that name or not. */
  interface?: string
  /** Source MAC address in canonical form. */
  mac?: string
}

/** When a rule is in force, both ends included: seconds since 1970 or, daily, since midnight UTC. */
export interface FilterWindow {
  from: number
  to: number
  daily: boolean
}

/** One rule. Packets meet rules by ascending rank, and the first match decides. */
export interface FilterRule {
  kind: 'filter'
  key: string
  /** By which counters and traces name the rule. Above 0 and below 2^48, unique among the rules. */
  id: number
  /** Unique among the rules: below 2^3, 2^20 and 2^41. */
  rank: readonly [level: number, priority: number, tie: number]
  accept: boolean
  /** A drop that holds for connections that stand, too: their packets in the direction of their opening. */
  fresh?: true
  match: FilterMatch
  window?: FilterWindow
  /** Observed entries only: the kernel does not hold all that the entry asks for. */
  damaged?: true
}

/** What happens to packets that no rule decides. */
export interface FilterDefault {
  kind: 'filter_default'
  key: string
  accept: boolean
  /** Those that nft has marked with SPARED_PRIORITY are admitted anyway; nft must keep others from bringing the mark. */
  spares?: true
}

export type FilterEntry = FilterRule | FilterDefault

export const isFilter = (entry: { kind: string }): entry is FilterEntry =>
  entry.kind === 'filter' || entry.kind === 'filter_default'

/** Everything about an entry that the kernel must hold, as one comparable string. */
export function filterFingerprint(entry: FilterEntry): string {
  if (entry.kind === 'filter_default') return `filter_default ${entry.accept} ${entry.spares ?? false}`
  const { id, rank, accept, fresh = false, match, window, damaged = false } = entry
  const { protocol, source, dest, sourcePort, destPorts, interface: device, mac } = match
  const times = window && [window.from, window.to, window.daily]
  return JSON.stringify([
    id,
    rank,
    accept,
    fresh,
    [protocol, source?.text, dest?.text, sourcePort, destPorts, device, mac],
    times,
    damaged,
  ])
}
