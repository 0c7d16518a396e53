/** What `GET /metrics` shows of the firewall, by counts that an index answers. */
import { count, sql } from 'drizzle-orm'
import type { AreaContext, AreaMetric, Db, Sample } from '../../core/area.ts'
import { inSlices } from '../../core/slices.ts'
import { prepared } from '../../core/state/prepared.ts'
import type { Hits } from '../../dataplane/bpf/firewall/filter.ts'
import { shortfall } from './legacy.ts'
import { rulesLimit } from './limit.ts'
import { defaultAction, everyRule, queries } from './queries.ts'
import { LEVELS } from './schemas.ts'
import { rules } from './tables.ts'

const ACTIONS = ['accept', 'drop', 'reject']
const one = (value = 0): Sample[] => [{ value }]

export const metrics: readonly AreaMetric[] = [
  {
    name: 'rules',
    help: 'Rules that are stored, by action and level.',
    type: 'gauge',
    labels: ['action', 'level'],
    read: ({ read }) => byKind(read),
  },
  {
    name: 'rules_limit',
    help: 'Most rules that can be stored: max_rules, without the eBPF classifier 16384 at most.',
    type: 'gauge',
    read: (context) => one(rulesLimit(context).rules),
  },
  {
    name: 'scheduled_rules',
    help: 'Rules that are in force within a window of time only, whether or not it is open now.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).scheduledCount.get()?.rules),
  },
  {
    name: 'not_enforced_rules',
    help: 'Rules of earlier releases that are not enforced as they stand; GET /rules shows them with not_enforced.',
    type: 'gauge',
    read: async ({ read }) => one(await notEnforced(read)),
  },
  {
    name: 'pending_evictions',
    help: 'New drops whose forbidden connections are not ended yet; the drops themselves are in force.',
    type: 'gauge',
    read: ({ read }) => one(queries(read).pendingCount.get()?.rules),
  },
  {
    name: 'accelerated',
    help: '1 when the eBPF classifier judges by the rules, 0 when nft compares them one by one.',
    type: 'gauge',
    read: ({ plane }) => one(plane.filter.accelerated ? 1 : 0),
  },
  {
    name: 'rule_packets_total',
    help: 'Packets that a rule has decided since it was made: those that open a connection or have none.',
    type: 'counter',
    labels: ['rule'],
    read: (context) => ofRules(context, 'packets'),
  },
  {
    name: 'rule_bytes_total',
    help: 'Bytes of the packets that a rule has decided since it was made.',
    type: 'counter',
    labels: ['rule'],
    read: (context) => ofRules(context, 'bytes'),
  },
  {
    name: 'default_action',
    help: '1 for what happens to traffic that no rule decides, 0 for the other.',
    type: 'gauge',
    labels: ['action'],
    read: ({ read }) =>
      ['allow', 'deny'].map((action) => ({ value: defaultAction(read) === action ? 1 : 0, labels: { action } })),
  },
]

/** Of every rule that is in force; nothing when there are more rules than the setting allows, rather than some of them. */
async function ofRules({ plane, read, config }: AreaContext, unit: keyof Hits): Promise<Sample[]> {
  const stored = Number(queries(read).setting.get({ name: 'rule_count' })?.value ?? 0)
  if (!plane.filter.accelerated || stored > config.int('firewall_rule_metrics')) return []
  const samples: Sample[] = []
  await inSlices(everyRule(read), ({ id }) => {
    const hits = plane.filter.count(id)
    if (hits) samples.push({ value: Number(hits[unit]), labels: { rule: String(id) } })
  })
  return samples
}

/** Rules of earlier releases may carry any text, so what is not known is "other". */
function byKind(db: Db): Sample[] {
  const known = (names: readonly string[], name: string) => (names.includes(name) ? name : 'other')
  const samples = new Map<string, Required<Sample>>()
  for (const row of queries(db).kinds.all()) {
    const labels = { action: known(ACTIONS, row.action), level: known(LEVELS, row.level) }
    const key = `${labels.action} ${labels.level}`
    samples.set(key, { labels, value: (samples.get(key)?.value ?? 0) + row.rules })
  }
  return [...samples.values()]
}

/**
 * Ids of the rules that fall short (legacy.ts). Only an earlier release can have stored them, so they are looked for once:
 * the walk takes 0.1 s for 16,384 rules, in slices.
 */
const outdated = prepared((): { ids?: number[] } => ({}))

async function notEnforced(db: Db): Promise<number> {
  const known = outdated(db)
  known.ids ??= await findOutdated(db)
  if (known.ids.length === 0) return 0
  // As one value, because there may be more than a statement can have placeholders.
  const listed = sql`${rules.id} in (select value from json_each(${JSON.stringify(known.ids)}))`
  return db.select({ rules: count() }).from(rules).where(listed).get()?.rules ?? 0
}

async function findOutdated(db: Db): Promise<number[]> {
  const ids: number[] = []
  await inSlices(everyRule(db), (row) => {
    if (shortfall(row) !== undefined) ids.push(row.id)
  })
  return ids
}
