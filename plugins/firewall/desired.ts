/** Rows → entries of table `inet stratum`. Pure. */
import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import type { Chain, OrderedRule } from '../../dataplane/entry.ts'
import { parseMac, parsePrefix, quotedInterface } from '../../dataplane/nft/text.ts'
import { shortfall } from './legacy.ts'
import { everyRule, queries } from './queries.ts'
import { scheduleText } from './schedule.ts'
import { LEVELS } from './schemas.ts'
import type { Row } from './tables.ts'

export const LIST = 'firewall_rules'
const DEFAULT = 'firewall_default'
const ESTABLISHED = 'firewall_established'
/** With more new drops than this at once, every established connection is judged anew until the forbidden ones are ended. */
const MAX_FRESH = 32

const joined = (...parts: string[]): string => parts.filter((part) => part !== '').join(' ')

/** A segment that is no first one and would open an ended connection anew. */
const resumed = (family: 4 | 6) => {
  const ip = family === 4 ? 'ip' : 'ip6'
  const tuple = `${ip} saddr . tcp sport . ${ip} daddr . tcp dport`
  return `ct state new tcp flags & (syn | ack) != syn ${tuple} @firewall_ended${family} drop`
}

/**
 * The base chain. Established connections leave first, so their cost does not depend on the number of rules. Its policy
 * is accept; deny is the last rule of `firewall_default`.
 */
const BASE: Chain = {
  kind: 'chain',
  key: 'firewall/firewall',
  chain: 'firewall',
  rules: [
    'ct state established,related jump firewall_established',
    resumed(4),
    resumed(6),
    'jump firewall_rules',
    'jump firewall_default',
  ],
}

/** The node's own side of an ended connection must not open it anew either; nothing else is judged on the way out. */
const OUTPUT: Chain = {
  kind: 'chain',
  key: 'firewall/firewall_output',
  chain: 'firewall_output',
  rules: [resumed(4), resumed(6)],
}

/** Ids of refs: `rule/<id>`, `default`, `established`. */
export const ruleRef = (id: number) => ({ area: 'firewall', id: `rule/${id}` })
export const defaultRef = { area: 'firewall', id: 'default' }
export const establishedRef = { area: 'firewall', id: 'established' }

export const desired: Desired = {
  *all(db, config) {
    yield BASE
    yield OUTPUT
    yield* defaultEntries(db, config)
    yield* establishedEntries(db)
    for (const row of everyRule(db)) yield* ruleEntries(row)
  },
  one(db, id, config) {
    if (id === 'default') return defaultEntries(db, config)
    if (id === 'established') return establishedEntries(db)
    const row = queries(db).byId.get({ id: Number(id.slice('rule/'.length)) })
    return row === undefined ? [] : ruleEntries(row)
  },
}

export const defaultAction = (db: Db): 'allow' | 'deny' =>
  queries(db).setting.get({ name: 'default_action' })?.value === 'deny' ? 'deny' : 'allow'

/** Levels broadest first, then priority ascending, then id ascending (D66). */
export function rankOf(row: Pick<Row, 'level' | 'priority' | 'tie'>): [number, number, number] {
  return [(LEVELS as readonly string[]).indexOf(row.level), row.priority, row.tie]
}

function ruleEntries(row: Row): OrderedRule[] {
  if (shortfall(row)?.leftOut) return []
  const text = joined(matchText(row), scheduleText(row), row.action === 'accept' ? 'accept' : 'drop')
  return [{ kind: 'rule', key: `firewall/${row.id}`, list: LIST, rank: rankOf(row), text }]
}

/** The nft expressions of a row's match, each value parsed once more so that only canonical text gets out. */
export function matchText(row: Row): string {
  const parts: string[] = []
  if (row.interface) parts.push(`iifname ${quotedInterface(row.interface)}`)
  if (row.mac) parts.push(`ether saddr ${certain(parseMac(row.mac))}`)
  if (row.sourceIp) parts.push(addressText('saddr', row.sourceIp))
  if (row.destIp) parts.push(addressText('daddr', row.destIp))
  parts.push(...protocolText(row))
  return parts.join(' ')
}

function addressText(side: 'saddr' | 'daddr', text: string): string {
  const prefix = certain(parsePrefix(text))
  return `${prefix.family === 4 ? 'ip' : 'ip6'} ${side} ${prefix.text}`
}

function protocolText(row: Row): string[] {
  const ports = [
    ...(row.sourcePort > 0 ? [`sport ${row.sourcePort}`] : []),
    ...(row.destPort > 0
      ? [`dport ${row.destPortMax > row.destPort ? `${row.destPort}-${row.destPortMax}` : row.destPort}`]
      : []),
  ]
  if (row.protocol === 'icmp') return ['ip protocol icmp']
  if (row.protocol === 'tcp' || row.protocol === 'udp') {
    return ports.length === 0 ? [`meta l4proto ${row.protocol}`] : ports.map((port) => `${row.protocol} ${port}`)
  }
  return ports.length === 0 ? [] : ['meta l4proto @firewall_ported', ...ports.map((port) => `th ${port}`)]
}

/** The end of the road for a packet that no rule decided. Deny ends with a plain drop, so INVALID packets end there too. */
function defaultEntries(db: Db, config: Config): Chain[] {
  if (defaultAction(db) === 'allow') return []
  const lines = [...(config.flag('firewall_failsafe') ? failsafes(config) : []), 'drop']
  return [{ kind: 'chain', key: `firewall/${DEFAULT}`, chain: DEFAULT, rules: lines }]
}

/**
 * What established connections pass. Those that a drop rule has just forbidden are not ended yet: their packets, in the
 * direction in which the connection was opened, go on to the rules instead, so the rule holds from its first moment.
 */
function establishedEntries(db: Db): Chain[] {
  const fresh = queries(db).pendingRules.all({ limit: MAX_FRESH + 1 })
  const lines =
    fresh.length > MAX_FRESH
      ? ['ct direction original return']
      : fresh
          .filter((row) => !shortfall(row)?.leftOut)
          .map((row) => joined('ct direction original', matchText(row), 'return'))
  return [{ kind: 'chain', key: `firewall/${ESTABLISHED}`, chain: ESTABLISHED, rules: [...lines, 'accept'] }]
}

/** What the default deny spares, so that it cannot cut the node off (D71). Explicit drop rules come before and win. */
function failsafes(config: Config): string[] {
  const ports = [...new Set(['api_port', 'grpc_port', 'events_port'].map((key) => config.int(key)))].filter(
    (p) => p > 0,
  )
  const api = `tcp dport { ${ports.join(', ')} } fib daddr type local accept`
  const sources = config.list('api_allowed_ips').map((text) => addressText('saddr', text))
  return [
    'iifname "lo" accept',
    // Neighbour discovery (RFC 4861) is untracked in conntrack, so nothing else admits it.
    'icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept',
    // Replies to a DHCP client (RFC 2131 §4.1, RFC 8415 §7.2) may come by broadcast, which conntrack cannot relate.
    'udp sport 67 udp dport 68 accept',
    'udp sport 547 udp dport 546 accept',
    ...(ports.length === 0 ? [] : sources.length === 0 ? [api] : sources.map((source) => `${source} ${api}`)),
  ]
}

function certain<T>(value: T | undefined): T {
  if (value === undefined) throw new TypeError('a stored value cannot be read: the row was changed behind the agent')
  return value
}
