/** The statements of flows, prepared once per connection. */
import { and, asc, eq, gt, gte, lt, lte, ne, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { LAST_MAC } from './keys.ts'
import { addresses, bindings, counters, days, macs, readings, samples, series } from './tables.ts'

const { placeholder } = sql
const sums = {
  bytesIn: placeholder('bytesIn'),
  bytesOut: placeholder('bytesOut'),
  packetsIn: placeholder('packetsIn'),
  packetsOut: placeholder('packetsOut'),
}
const excluded = {
  bytesIn: sql`excluded.bytes_in`,
  bytesOut: sql`excluded.bytes_out`,
  packetsIn: sql`excluded.packets_in`,
  packetsOut: sql`excluded.packets_out`,
}
const added = {
  bytesIn: sql`bytes_in + excluded.bytes_in`,
  bytesOut: sql`bytes_out + excluded.bytes_out`,
  packetsIn: sql`packets_in + excluded.packets_in`,
  packetsOut: sql`packets_out + excluded.packets_out`,
}
const total = {
  bytesIn: sql<number>`coalesce(sum(bytes_in), 0)`,
  bytesOut: sql<number>`coalesce(sum(bytes_out), 0)`,
  packetsIn: sql<number>`coalesce(sum(packets_in), 0)`,
  packetsOut: sql<number>`coalesce(sum(packets_out), 0)`,
}

export const queries = prepared((db) => ({
  reading: db.select().from(readings).limit(1).prepare(),
  putReading: db
    .insert(readings)
    .values({ id: 0, at: placeholder('at'), refused: placeholder('refused') })
    .onConflictDoUpdate({ target: readings.id, set: { at: sql`excluded.at`, refused: sql`excluded.refused` } })
    .prepare(),

  mac: db
    .select()
    .from(macs)
    .where(eq(macs.mac, placeholder('mac')))
    .prepare(),
  macById: db
    .select()
    .from(macs)
    .where(eq(macs.id, placeholder('id')))
    .prepare(),
  /** By number, from behind `after` to `last`; the node is none of them. */
  macsAfter: db
    .select()
    .from(macs)
    .where(and(gt(macs.id, placeholder('after')), gt(macs.id, 0), lte(macs.id, placeholder('last'))))
    .orderBy(asc(macs.id))
    .limit(placeholder('limit'))
    .prepare(),
  macCount: db
    .select({ many: sql<number>`count(*)` })
    .from(macs)
    .where(and(gt(macs.id, 0), lte(macs.id, LAST_MAC)))
    .prepare(),
  lastMac: db
    .select({ id: sql<number | null>`max(id)` })
    .from(macs)
    .where(and(gte(macs.id, placeholder('first')), lte(macs.id, placeholder('last'))))
    .prepare(),
  /** The number that is free before the first MAC that has one. */
  gapInMacs: db
    .select({ id: sql<number | null>`min(id) - 1` })
    .from(macs)
    .where(
      and(
        gt(macs.id, placeholder('behind')),
        lte(macs.id, placeholder('last')),
        sql`not exists (select 1 from flows_macs as lower where lower.id = flows_macs.id - 1)`,
      ),
    )
    .prepare(),
  /** MACs that were seen first in a slot that is yet to come. */
  beginNow: db
    .update(macs)
    .set({ firstSlot: sql`${placeholder('slot')}` })
    .where(gt(macs.firstSlot, placeholder('slot')))
    .prepare(),
  addMac: db
    .insert(macs)
    .values({ id: placeholder('id'), mac: placeholder('mac'), firstSlot: placeholder('firstSlot') })
    .prepare(),
  removeMac: db
    .delete(macs)
    .where(and(eq(macs.id, placeholder('id')), ne(macs.id, 0)))
    .prepare(),

  counter: db
    .select()
    .from(counters)
    .where(eq(counters.id, placeholder('id')))
    .prepare(),
  putCounter: db
    .insert(counters)
    .values({ id: placeholder('id'), born: placeholder('born'), ...sums })
    .onConflictDoUpdate({ target: counters.id, set: { born: sql`excluded.born`, ...excluded } })
    .prepare(),
  removeCounters: db
    .delete(counters)
    .where(and(gte(counters.id, placeholder('from')), lte(counters.id, placeholder('to'))))
    .prepare(),

  binding: db
    .select()
    .from(bindings)
    .where(eq(bindings.key, placeholder('key')))
    .prepare(),
  bindingsAfter: db
    .select({ key: bindings.key })
    .from(bindings)
    .where(gt(bindings.key, placeholder('after')))
    .orderBy(asc(bindings.key))
    .limit(placeholder('limit'))
    .prepare(),
  putBinding: db
    .insert(bindings)
    .values({ key: placeholder('key'), since: placeholder('since'), ...sums })
    .onConflictDoUpdate({ target: bindings.key, set: { since: sql`excluded.since`, ...excluded } })
    .prepare(),
  removeBinding: db
    .delete(bindings)
    .where(eq(bindings.key, placeholder('key')))
    .prepare(),

  addSample: db
    .insert(samples)
    .values({ id: placeholder('id'), ...sums })
    .onConflictDoUpdate({ target: samples.id, set: added })
    .prepare(),
  sample: db
    .select()
    .from(samples)
    .where(eq(samples.id, placeholder('id')))
    .prepare(),
  samplesBetween: db
    .select()
    .from(samples)
    .where(and(gte(samples.id, placeholder('from')), lt(samples.id, placeholder('behind'))))
    .orderBy(asc(samples.id))
    .prepare(),
  firstSample: db.select({ id: sql<number | null>`min(id)` }).from(samples).prepare(),
  removeSamples: db
    .delete(samples)
    .where(and(gte(samples.id, placeholder('from')), lt(samples.id, placeholder('behind'))))
    .prepare(),

  addDay: db
    .insert(days)
    .values({ id: placeholder('id'), ...sums })
    .onConflictDoUpdate({ target: days.id, set: added })
    .prepare(),
  day: db
    .select()
    .from(days)
    .where(eq(days.id, placeholder('id')))
    .prepare(),
  sumOfDays: db
    .select(total)
    .from(days)
    .where(and(gte(days.id, placeholder('from')), lte(days.id, placeholder('to'))))
    .prepare(),
  anyDay: db
    .select({ id: days.id })
    .from(days)
    .where(and(gte(days.id, placeholder('from')), lte(days.id, placeholder('to'))))
    .limit(1)
    .prepare(),
  removeDays: db
    .delete(days)
    .where(and(gte(days.id, placeholder('from')), lte(days.id, placeholder('to'))))
    .prepare(),
  series: db
    .select()
    .from(series)
    .where(and(gte(series.id, placeholder('from')), lte(series.id, placeholder('to'))))
    .orderBy(asc(series.id))
    .prepare(),
  putSeries: db
    .insert(series)
    .values({ id: placeholder('id'), kilobytes: placeholder('kilobytes') })
    .onConflictDoUpdate({ target: series.id, set: { kilobytes: sql`excluded.kilobytes` } })
    .prepare(),
  removeSeries: db
    .delete(series)
    .where(and(gte(series.id, placeholder('from')), lte(series.id, placeholder('to'))))
    .prepare(),

  seeAddress: db
    .update(addresses)
    .set({ lastSlot: sql`max(last_slot, ${placeholder('lastSlot')})` })
    .where(and(eq(addresses.macId, placeholder('macId')), eq(addresses.address, placeholder('address'))))
    .prepare(),
  addressesOf: db
    .select()
    .from(addresses)
    .where(eq(addresses.macId, placeholder('macId')))
    .prepare(),
  addAddress: db
    .insert(addresses)
    .values({
      macId: placeholder('macId'),
      address: placeholder('address'),
      firstSlot: placeholder('firstSlot'),
      lastSlot: placeholder('lastSlot'),
    })
    .prepare(),
  /** All of a MAC but the `keep` that were seen last. */
  forgetAddresses: db
    .delete(addresses)
    .where(
      and(
        eq(addresses.macId, placeholder('macId')),
        sql`address in (select address from flows_addresses where mac_id = ${placeholder('macId')}
          order by last_slot desc, first_slot desc limit -1 offset ${placeholder('keep')})`,
      ),
    )
    .prepare(),
  activeAddresses: db
    .select({ many: sql<number>`count(distinct address)` })
    .from(addresses)
    .where(and(lt(addresses.firstSlot, placeholder('behind')), gte(addresses.lastSlot, placeholder('first'))))
    .prepare(),
  removeAddresses: db
    .delete(addresses)
    .where(lt(addresses.lastSlot, placeholder('before')))
    .prepare(),
}))
