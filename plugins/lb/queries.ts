/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, gt, ne, sql } from 'drizzle-orm'
import type { Db } from '../../core/area.ts'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { backends, pending, place, type VipRow, vips } from './tables.ts'

const given = sql.placeholder
// Written out, because SQLite takes a partial index only where it can see that the query is within.
const isLive = sql`${backends.state} <> 'draining'`
const isDraining = sql`${backends.state} = 'draining'`
const isHeld = sql`${vips.holder} = 'lb'`

export const queries = prepared((db) => ({
  vip: db
    .select()
    .from(vips)
    .where(eq(vips.id, given('id')))
    .prepare(),
  vipAt: db
    .select()
    .from(vips)
    .where(and(eq(vips.address, given('address')), eq(vips.port, given('port')), eq(vips.protocol, given('protocol'))))
    .prepare(),
  fronts: db.select({ address: vips.address, port: vips.port, protocol: vips.protocol }).from(vips).prepare(),
  vipOn: db
    .select()
    .from(vips)
    .where(eq(vips.address, given('address')))
    .limit(1)
    .prepare(),
  vipPage: db
    .select()
    .from(vips)
    .where(gt(vips.number, given('after')))
    .orderBy(asc(vips.number))
    .limit(given('limit'))
    .prepare(),
  vipCount: db.select({ many: count() }).from(vips).prepare(),
  /** Addresses that the area brings up, each once. */
  held: db.selectDistinct({ address: vips.address }).from(vips).where(isHeld).prepare(),
  heldOne: db
    .select({ address: vips.address })
    .from(vips)
    .where(and(isHeld, eq(vips.address, given('address'))))
    .limit(1)
    .prepare(),
  /** Those that drain as well. */
  backendsOf: db
    .select()
    .from(backends)
    .where(eq(backends.vip, given('vip')))
    .orderBy(asc(backends.handle))
    .prepare(),
  liveOf: db
    .select()
    .from(backends)
    .where(and(isLive, eq(backends.vip, given('vip'))))
    .orderBy(asc(backends.id))
    .prepare(),
  liveCountOf: db
    .select({ many: count() })
    .from(backends)
    .where(and(isLive, eq(backends.vip, given('vip'))))
    .prepare(),
  live: db
    .select()
    .from(backends)
    .where(and(isLive, eq(backends.vip, given('vip')), eq(backends.id, given('id'))))
    .prepare(),
  target: db
    .select()
    .from(backends)
    .where(and(eq(backends.vip, given('vip')), eq(backends.ip, given('ip')), eq(backends.port, given('port'))))
    .prepare(),
  withHandle: db
    .select()
    .from(backends)
    .where(and(eq(backends.vip, given('vip')), eq(backends.handle, given('handle'))))
    .prepare(),
  backendWithIp: db
    .select()
    .from(backends)
    .where(eq(backends.ip, given('ip')))
    .limit(1)
    .prepare(),
  backend: db
    .select()
    .from(backends)
    .where(eq(backends.number, given('number')))
    .prepare(),
  /** One that is checked, and how. */
  checked: db
    .select({ backend: backends, vip: vips })
    .from(backends)
    .innerJoin(vips, eq(vips.id, backends.vip))
    .where(and(eq(backends.number, given('number')), isLive, ne(vips.checkType, '')))
    .prepare(),
  /** Numbers of later backends, and how often each is checked: '' for never. */
  later: db
    .select({ number: backends.number, checkType: vips.checkType, checkInterval: vips.checkInterval })
    .from(backends)
    .innerJoin(vips, eq(vips.id, backends.vip))
    .where(gt(backends.number, given('after')))
    .orderBy(asc(backends.number))
    .limit(PAGE)
    .prepare(),
  /** Those that have drained longest. */
  draining: db
    .select()
    .from(backends)
    .where(isDraining)
    .orderBy(asc(backends.drainUntil))
    .limit(given('limit'))
    .prepare(),
  counts: db.select({ state: backends.state, many: count() }).from(backends).groupBy(backends.state).prepare(),
  removeVip: db
    .delete(vips)
    .where(eq(vips.id, given('id')))
    .prepare(),
  removeBackends: db
    .delete(backends)
    .where(eq(backends.vip, given('vip')))
    .prepare(),
  removeBackend: db
    .delete(backends)
    .where(eq(backends.number, given('number')))
    .prepare(),
  place: db.select().from(place).prepare(),
  pending: db.select().from(pending).orderBy(asc(pending.id)).limit(given('limit')).prepare(),
  /** VIPs whose backends answer from this address and port; with DSR they answer as the VIP. */
  servedBy: db
    .select({ vip: vips.id })
    .from(backends)
    .innerJoin(vips, eq(vips.id, backends.vip))
    .where(
      and(
        eq(backends.ip, given('ip')),
        eq(backends.port, given('port')),
        eq(vips.protocol, given('protocol')),
        eq(vips.dsr, false),
      ),
    )
    .prepare(),
}))

/** Page by page, so that no statement stays open while the caller yields. */
export function* everyVip(db: Db): Generator<VipRow> {
  for (let after = 0; ; ) {
    const page = queries(db).vipPage.all({ after, limit: PAGE })
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) return
    after = last.number
  }
}
