/** The statements of the area, prepared once per connection. */
import { and, asc, count, eq, gt, ne, or, sql } from 'drizzle-orm'
import { prepared } from '../../core/state/prepared.ts'
import { PAGE } from '../../core/transport/list.ts'
import { keys, records, zones } from './tables.ts'

const given = sql.placeholder
const ofZone = eq(records.zoneId, given('zone'))
const afterLast = gt(records.id, given('after'))

export const queries = prepared((db) => ({
  zone: db
    .select()
    .from(zones)
    .where(eq(zones.id, given('id')))
    .prepare(),
  zoneNamed: db
    .select()
    .from(zones)
    .where(eq(zones.name, given('name')))
    .prepare(),
  zonePage: db
    .select()
    .from(zones)
    .where(gt(zones.id, given('after')))
    .orderBy(asc(zones.id))
    .limit(PAGE)
    .prepare(),
  allZones: db.select().from(zones).prepare(),
  zoneCount: db.select({ count: count() }).from(zones).prepare(),
  record: db
    .select()
    .from(records)
    .where(eq(records.id, given('id')))
    .prepare(),
  recordPage: db.select().from(records).where(afterLast).orderBy(asc(records.id)).limit(PAGE).prepare(),
  recordPageOfZone: db
    .select()
    .from(records)
    .where(and(ofZone, afterLast))
    .orderBy(asc(records.id))
    .limit(PAGE)
    .prepare(),
  soaOf: db
    .select()
    .from(records)
    .where(and(ofZone, eq(records.name, given('name')), eq(records.type, 'SOA')))
    .limit(1)
    .prepare(),
  /** Types that a name has, and the subnets of each. */
  setsAt: db
    .selectDistinct({ type: records.type, subnet: records.subnet })
    .from(records)
    .where(and(ofZone, eq(records.name, given('name'))))
    .prepare(),
  recordInPlace: db
    .select({ id: records.id })
    .from(records)
    .where(
      and(
        ofZone,
        eq(records.name, given('name')),
        eq(records.type, given('type')),
        eq(records.subnet, given('subnet')),
        eq(records.value, given('value')),
      ),
    )
    .prepare(),
  /** A record at or below a name that does not delegate it; `below` is the name with a dot in front. */
  contentBelow: db
    .select({ name: records.name })
    .from(records)
    .where(
      and(
        ofZone,
        ne(records.type, 'NS'),
        or(
          eq(records.name, given('name')),
          sql`substr(${records.name}, -length(${given('below')})) = ${given('below')}`,
        ),
      ),
    )
    .limit(1)
    .prepare(),
  recordCount: db.select({ count: count() }).from(records).prepare(),
  keyOf: db
    .select()
    .from(keys)
    .where(eq(keys.zoneId, given('zone')))
    .prepare(),
  keyCount: db.select({ count: count() }).from(keys).prepare(),
}))
