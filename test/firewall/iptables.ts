/** The same rules as iptables-legacy has them: one table for each family. */
import { spawnSync } from 'node:child_process'
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Family } from './address.ts'
import { span } from './nft-text.ts'
import { byRank } from './reference.ts'

export const RESTORE: Readonly<Record<Family, string>> = { 4: 'iptables-legacy-restore', 6: 'ip6tables-legacy-restore' }

/** Whether iptables-legacy is installed. */
export const hasIptables = (): boolean =>
  Object.values(RESTORE).every((command) => spawnSync(command, ['--version']).error === undefined)

/** Input of iptables-restore: the rules that can hold for this family, then drop. */
export function linearIptables(rules: readonly FilterRule[], family: Family): string {
  const lines = [...rules].sort(byRank).flatMap((rule) => iptablesRules(rule, family))
  const established = '-A PREROUTING -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT'
  return ['*mangle', ':PREROUTING ACCEPT [0:0]', established, ...lines, '-A PREROUTING -j DROP', 'COMMIT', ''].join(
    '\n',
  )
}

/** None for a rule of the other family, two for one of ports without a protocol. */
export function iptablesRules({ match, accept, window }: FilterRule, family: Family): string[] {
  if (window) throw new TypeError('rules with a window of time have no text here')
  const other = [match.source, match.dest].some((prefix) => prefix !== undefined && prefix.family !== family)
  if (other || (match.protocol === 'icmp' && family === 6)) return []
  const { protocol, sourcePort, destPorts, source, dest } = match
  const ported = sourcePort !== undefined || destPorts !== undefined
  const protocols = protocol ? [protocol] : ported ? ['tcp', 'udp'] : [undefined]
  return protocols.map((name) =>
    [
      '-A PREROUTING',
      ...option('-i', match.interface),
      ...option('-s', source?.text),
      ...option('-d', dest?.text),
      ...option('-p', name),
      ...option('-m mac --mac-source', match.mac),
      ...option('--sport', sourcePort),
      ...option('--dport', destPorts && span(destPorts, ':')),
      `-j ${accept ? 'ACCEPT' : 'DROP'}`,
    ].join(' '),
  )
}

const option = (name: string, value: FilterMatch['mac'] | number): string[] =>
  value === undefined ? [] : [`${name} ${value}`]
