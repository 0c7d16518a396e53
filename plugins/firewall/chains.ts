/** What stands in table `inet stratum` whoever judges by the rules. Pure. */
import type { Config } from '../../core/config.ts'
import type { Chain } from '../../dataplane/entry.ts'
import { parsePrefix } from '../../dataplane/nft/text.ts'
import { openings, WORK_BRIDGE } from '../../dataplane/numbers.ts'

/** A chain of the area and what stands in it. */
export const chain = (name: string, rules: readonly string[]): Chain => ({
  kind: 'chain',
  key: `firewall/${name}`,
  chain: name,
  rules,
})

/** A segment that is no first one and would open an ended connection anew. */
const resumed = (family: 4 | 6) => {
  const ip = family === 4 ? 'ip' : 'ip6'
  const tuple = `${ip} saddr . tcp sport . ${ip} daddr . tcp dport`
  return `ct state new tcp flags & (syn | ack) != syn ${tuple} @firewall_ended${family} drop`
}
export const RESUMED = [resumed(4), resumed(6)]

/** The node's own side of an ended connection must not open it anew either; nothing else is judged on the way out. */
export const OUTPUT = chain('firewall_output', RESUMED)

/** What the default deny spares, so that it cannot cut the node off (D71). Explicit drop rules come before and win. */
export function failsafes(config: Config): string[] {
  const ports = apiPorts(config)
  const api = `tcp dport { ${ports.join(', ')} } fib daddr type local`
  const sources = config.list('api_allowed_ips').map((text) => addressText('saddr', text))
  return [
    'iifname "lo"',
    // Neighbour discovery (RFC 4861) is untracked in conntrack, so nothing else admits it.
    'icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }',
    // Replies to a DHCP client (RFC 2131 §4.1, RFC 8415 §7.2) may come by broadcast, which conntrack cannot relate. To this
    // node's own client: those to other machines are routed.
    'udp sport 67 udp dport 68 fib daddr type != unicast',
    'udp sport 547 udp dport 546 fib daddr type != unicast',
    `meta l4proto . th dport . ip saddr @${openings(4)} fib daddr type local`,
    `meta l4proto . th dport . ip6 saddr @${openings(6)} fib daddr type local`,
    // Requests of workloads to the DHCP server of the node itself, by broadcast or to the gateway address.
    `iifname "${WORK_BRIDGE}" udp sport 68 udp dport 67 fib daddr type != unicast`,
    ...(ports.length === 0 ? [] : sources.length === 0 ? [api] : sources.map((source) => `${source} ${api}`)),
  ]
}

/** Ports of the services of the agent that are not switched off. */
export const apiPorts = (config: Config): number[] =>
  [...new Set(['api_port', 'grpc_port', 'events_port'].map((key) => config.int(key)))].filter((port) => port > 0)

/** `ip saddr 192.0.2.0/24`, of text that is read once more so that only canonical text gets out. */
export function addressText(side: 'saddr' | 'daddr', text: string): string {
  const prefix = certain(parsePrefix(text))
  return `${prefix.family === 4 ? 'ip' : 'ip6'} ${side} ${prefix.text}`
}

/** What was read when it was stored. @throws TypeError when it cannot be any more */
export function certain<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError('a stored value cannot be read: the row was changed behind the agent')
  return value
}
