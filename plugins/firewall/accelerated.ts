/**
 * Rows → what the eBPF classifier judges by. It stands behind nft's chain `firewall`, which keeps what is nft's: conntrack,
 * connections that were ended, and the mark of what the default deny spares. Pure.
 */
import type { Db, Desired } from '../../core/area.ts'
import type { Config } from '../../core/config.ts'
import type { FilterMatch, FilterRule } from '../../dataplane/bpf/firewall/entries.ts'
import type { Entry } from '../../dataplane/entry.ts'
import { parseMac, parsePrefix } from '../../dataplane/nft/text.ts'
import { SPARED_PRIORITY } from '../../dataplane/numbers.ts'
import { certain, chain, failsafes, OUTPUT, RESUMED } from './chains.ts'
import { shortfall } from './legacy.ts'
import { defaultAction, everyRule, queries } from './queries.ts'
import { idOf, rankOf } from './refs.ts'
import { scheduleWindow } from './schedule.ts'
import type { Row } from './tables.ts'

export const accelerated: Desired = {
  *all(db, config) {
    yield OUTPUT
    yield* defaultEntries(db, config)
    for (const row of everyRule(db)) yield* ruleEntries(db, row)
  },
  one(db, ref, config) {
    if (ref === 'default') return defaultEntries(db, config)
    // A new drop says by itself that it holds for connections that stand.
    if (ref === 'established') return []
    const row = queries(db).byId.get({ id: idOf(ref) })
    return row === undefined ? [] : ruleEntries(db, row)
  },
}

/** skb->priority as nft writes it: `ffff:5354`. */
const MARK = [SPARED_PRIORITY >>> 16, SPARED_PRIORITY & 0xffff].map((half) => half.toString(16)).join(':')

/** The default, and whether nft marks what it spares: it judges nothing else of it. */
function defaultEntries(db: Db, config: Config): Entry[] {
  const accept = defaultAction(db) === 'allow'
  const sparing = !accept && config.flag('firewall_failsafe')
  const base = ['ct state established,related accept', ...RESUMED, ...(sparing ? ['jump firewall_spared'] : [])]
  return [
    chain('firewall', base),
    { kind: 'filter_default', key: 'firewall/filter_default', accept, ...(sparing && { spares: true }) },
    ...(sparing ? [chain('firewall_spared', marks(config))] : []),
  ]
}

/** A mark that a packet brings is none of ours. */
const marks = (config: Config): string[] => [
  `meta priority ${MARK} meta priority set none`,
  ...failsafes(config).map((packets) => `${packets} meta priority set ${MARK}`),
]

function ruleEntries(db: Db, row: Row): FilterRule[] {
  if (shortfall(row)?.leftOut) return []
  const { id } = row
  const accept = row.action === 'accept'
  const fresh = !accept && queries(db).isPending.get({ rule: id }) !== undefined
  const window = scheduleWindow(row)
  return [
    {
      kind: 'filter',
      key: `firewall/filter/${id}`,
      id,
      rank: rankOf(row),
      accept,
      ...(fresh && { fresh }),
      match: matchOf(row),
      ...(window && { window }),
    },
  ]
}

/** What a row matches, each value read once more; an absent field matches everything. */
export function matchOf(row: Row): FilterMatch {
  const { protocol, sourcePort, destPort } = row
  return {
    ...((protocol === 'tcp' || protocol === 'udp' || protocol === 'icmp') && { protocol }),
    ...(row.sourceIp && { source: certain(parsePrefix(row.sourceIp)) }),
    ...(row.destIp && { dest: certain(parsePrefix(row.destIp)) }),
    ...(sourcePort > 0 && { sourcePort }),
    ...(destPort > 0 && { destPorts: [destPort, Math.max(destPort, row.destPortMax)] as const }),
    ...(row.interface && { interface: row.interface }),
    ...(row.mac && { mac: certain(parseMac(row.mac)) }),
  }
}
