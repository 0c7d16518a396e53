/** Rows → nft rules, which packets meet one after the other: where the kernel has no place for the classifier. Pure. */
import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import type { Chain, OrderedRule } from '../../dataplane/entry.ts'
import { parseMac, quotedInterface } from '../../dataplane/nft/text.ts'
import { addressText, certain, chain, failsafes, OUTPUT, RESUMED } from './chains.ts'
import { shortfall } from './legacy.ts'
import { defaultAction, everyRule, queries } from './queries.ts'
import { idOf, rankOf } from './refs.ts'
import { scheduleText } from './schedule.ts'
import type { Row } from './tables.ts'

export const LIST = 'firewall_rules'
/** With more new drops than this at once, every established connection is judged anew until the forbidden ones are ended. */
const MAX_FRESH = 32

const joined = (...parts: string[]): string => parts.filter((part) => part !== '').join(' ')

/**
 * The base chain. Established connections leave first, so their cost does not depend on the number of rules. Its policy
 * is accept; deny is the last rule of `firewall_default`. `firewall_spared` is empty, but for the moment in which nft takes
 * over from the classifier or the other way round.
 */
const BASE = chain('firewall', [
  'ct state established,related jump firewall_established',
  ...RESUMED,
  'jump firewall_spared',
  'jump firewall_rules',
  'jump firewall_default',
])

export const linear: Desired = {
  *all(db, config) {
    yield BASE
    yield OUTPUT
    yield* defaultEntries(db, config)
    yield* establishedEntries(db)
    for (const row of everyRule(db)) yield* ruleEntries(row)
  },
  one(db, ref, config) {
    if (ref === 'default') return defaultEntries(db, config)
    if (ref === 'established') return establishedEntries(db)
    const row = queries(db).byId.get({ id: idOf(ref) })
    return row === undefined ? [] : ruleEntries(row)
  },
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
  const spared = config.flag('firewall_failsafe') ? failsafes(config).map((packets) => `${packets} accept`) : []
  return [chain('firewall_default', [...spared, 'drop'])]
}

/**
 * What established connections pass. Those that a drop rule has just forbidden are not ended yet: their packets, in the
 * direction in which the connection was opened, go on to the rules instead, so the rule holds from its first moment.
 */
function establishedEntries(db: Db): Chain[] {
  const fresh = queries(db).pendingRules.all({ after: 0, limit: MAX_FRESH + 1 })
  const lines =
    fresh.length > MAX_FRESH
      ? ['ct direction original return']
      : fresh
          .filter((row) => !shortfall(row)?.leftOut)
          .map((row) => joined('ct direction original', matchText(row), 'return'))
  return [chain('firewall_established', [...lines, 'accept'])]
}
