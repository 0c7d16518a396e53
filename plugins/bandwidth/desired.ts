/** Rows → pairs of devices, pools, and what each MAC may send and get. Pure. */
import type { Db, Desired } from '../../core/area.ts'
import type { Entry } from '../../dataplane/entry.ts'
import { link } from '../../dataplane/netlink/entries.ts'
import { ceiling, type QuotaEntry, type Rates, ratePool, shape } from '../../dataplane/shaping/entries.ts'
import { farName, nearName } from '../../dataplane/shaping/pairs.ts'
import { queries, type WholeShape } from './queries.ts'
import type { LimitRow, MemberRow, QuotaRow } from './tables.ts'

const AREA = 'bandwidth'
/** Configuration key: bits a second that a quota throttles to (D96). */
export const THROTTLE_BPS = 'quota_throttle_bps'
/** Share of a quota from which on it is nearly used up (D96). */
const WARNING = 0.8
/** Frames of any length pass, and a segmented one whole. */
const MTU = 65_535

export const desired: Desired = {
  *all(db, config) {
    const throttle = config.int(THROTTLE_BPS)
    for (const { shard } of queries(db).shards.all()) yield* shardEntries(shard)
    yield* ceilingEntries(db)
    for (const { number, total } of queries(db).pools.all()) yield ratePool(AREA, { number, rate: total })
    for (let after = ''; ; ) {
      const page = queries(db).wholeShapePage.all({ after })
      for (const row of page) yield shapeEntry(row, throttle)
      const last = page.at(-1)
      if (last === undefined) return
      after = last.shape.mac
    }
  },
  one(db, id, config) {
    const [kind = '', name = ''] = id.split('/')
    if (kind === 'ceiling') return ceilingEntries(db)
    if (kind === 'shard') return queries(db).shard.get({ shard: Number(name) }) ? shardEntries(Number(name)) : []
    if (kind === 'pool') {
      const row = queries(db).poolNumbered.get({ number: Number(name) })
      return row ? [ratePool(AREA, { number: row.number, rate: row.total })] : []
    }
    const row = queries(db).wholeShape.get({ mac: name })
    return row ? [shapeEntry(row, config.int(THROTTLE_BPS))] : []
  },
}

function shardEntries(shard: number): Entry[] {
  const name = nearName(shard)
  const peer = farName(shard)
  const sysctls = [[`ipv6/conf/${name}/disable_ipv6`, 1]] as const
  return [link(AREA, { name, device: { type: 'veth', peer }, mtu: MTU, sysctls })]
}

function ceilingEntries(db: Db): Entry[] {
  const row = queries(db).ceiling.get()
  return row ? [ceiling(AREA, row.gbps * 1e9)] : []
}

function shapeEntry(
  { shape: { mac, number, pool: poolNumber }, limit, member, quota, pool }: WholeShape,
  throttle: number,
): Entry {
  // A pool holds both ways, whatever the limit is for that names it.
  const [up, down] = (['up', 'down'] as const).map((way) =>
    ratesOf(limit && (limit.direction === 'both' || limit.direction === way) ? limit : null, member, pool?.total),
  )
  return shape(AREA, {
    mac,
    number,
    pool: poolNumber,
    interface: limit?.interface ?? 0,
    ...(up && { up }),
    ...(down && { down }),
    ...(quota && { quota: quotaEntry(quota, throttle) }),
  })
}

function ratesOf(limit: LimitRow | null, member: MemberRow | null, total?: number): Rates | undefined {
  const ceilings = [limit?.rate, member?.rate, total].filter((rate) => rate !== undefined && rate > 0) as number[]
  if (ceilings.length === 0) return undefined
  // Only what names the pool has been held against its total (checkGuarantees).
  const guaranteed = limit && limit.poolId !== '' ? limit.guaranteed : 0
  return { rate: Math.min(...ceilings), burst: limit?.burst ?? 0, guaranteed }
}

function quotaEntry({ slot, seq, limit, action, enforced, used, month }: QuotaRow, throttle: number): QuotaEntry {
  return {
    slot,
    number: seq,
    limit,
    warn: warnAt(limit),
    action: enforced && action !== 'notify' ? action : 'count',
    throttle,
    stored: { used, month },
  }
}

/** Bytes from which on a quota is nearly used up. */
export const warnAt = (limit: number): number => Math.max(1, Math.ceil(limit * WARNING))
